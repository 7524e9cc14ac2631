package rdma

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/verbs"
)

// sleepState is what Arm and the calls between it and the next Poll share.
type sleepState struct {
	armed       atomic.Bool // Arm was called since the last Poll, so the caller may sleep; Read and Write check it
	moreReady   bool        // a poll of a completion queue has returned as many as fit, so there may be more
	sendsFreed  bool        // send slots were freed since Arm
	sendBlocked bool        // a Send failed for want of a slot or of room in a queue
	blind       bool        // a device does not report its next completion: it has refused to; see blindInterval
	reported    bool        // the user knows it
}

const (
	// blindInterval is how long a caller sleeps if a device refuses to report completions. A device
	// that always does is not opened.
	blindInterval = time.Millisecond
	maxRefused    = 8 // refusals in a row to report the completions of one queue before the user is told
)

// Arm makes the rails report the next completions through the waker's file descriptor. Completions of sends are reported only
// if something waits for them. From now on, transfers that other goroutines begin wake the caller.
func (d *domain) Arm() (int, bool, error) {
	if d.stopped {
		return d.armStopped()
	}
	if d.sleep.armed.Load() {
		if err := d.disarm(); err != nil {
			return d.armLost(err)
		}
	}
	d.releaseBorrowed()
	d.ringDeferred()
	d.sleep.sendsFreed, d.sleep.moreReady = false, false
	d.events.Begin(nil)
	d.sleep.armed.Store(true)
	if err := d.armCQs(); err != nil {
		return d.armLost(err)
	}
	if err := d.progressAll(); err != nil {
		return d.armLost(err)
	}
	d.ringDeferred()
	missing := d.sendEventsMissing()
	blocked := d.sleep.sendBlocked
	d.sleep.sendBlocked = false
	if d.events.Pending() || blocked && d.sleep.sendsFreed || d.sleep.moreReady || missing ||
		len(d.cm.failures) > 0 {
		return d.waker.epfd, true, nil
	}
	now, at := d.clock.Elapsed(), d.clock.Next
	if d.sleep.blind {
		at = min(at, now+blindInterval)
	}
	if d.recvs.Incomplete() {
		at = min(at, d.recvs.Retry.At)
	}
	return d.waker.epfd, false, d.waker.setTimer(now, at)
}

// disarm consumes the events of the waker's file descriptor. The next progress reads the clock, since an expired timer may have
// caused the wakeup.
func (d *domain) disarm() error {
	d.sleep.armed.Store(false)
	d.fastPolls, d.clock.ReadAt = 0, d.clock.Polls
	return d.waker.drain(d)
}

// armCQs makes the completion queues report their next completion. If a device refuses that, the next Arm asks again, and the
// caller does not sleep for long until then.
func (d *domain) armCQs() error {
	sends := d.needSendEvents()
	d.sleep.blind = false
	for _, r := range d.polled {
		if r.RecvCQ != nil && !r.recvArmed {
			if err := d.arm(r, r.RecvCQ, &r.recvArmed, &r.recvRefused); err != nil {
				return err
			}
		}
		if sends && !r.sendArmed {
			if err := d.arm(r, r.SendCQ, &r.sendArmed, &r.sendRefused); err != nil {
				return err
			}
		}
	}
	return nil
}

// arm makes a completion queue of a rail report its next completion. It returns an error only if the first rail is lost.
func (d *domain) arm(r *rail, cq *verbs.CQ, armed *bool, refused *int) error {
	err := cq.Notify(false)
	if *armed = err == nil; *armed {
		*refused = 0
		return nil
	}
	if errors.Is(err, verbs.ErrDeviceLost) {
		return d.railLost(r, err)
	}
	d.sleep.blind = true
	if *refused++; *refused >= maxRefused && !d.sleep.reported && d.report != nil {
		d.sleep.reported = true
		d.report(fmt.Sprintf("device %s does not report completions any more, so a process that waits looks for them every %v: %v",
			r.Dev.Name(), blindInterval, err))
	}
	return nil
}

// needSendEvents reports whether something waits for completions of sends.
func (d *domain) needSendEvents() bool {
	return d.transfers.Active.Load() > 0 || d.sleep.sendBlocked || len(d.controlDue) > 0 || len(d.cm.closing.all) > 0
}

// sendEventsMissing reports whether something waits for completions of sends and a rail does not report them, because the wait
// began while the domain was being armed.
func (d *domain) sendEventsMissing() bool {
	return !d.sleep.blind && d.needSendEvents() && slices.ContainsFunc(d.polled, func(r *rail) bool { return !r.sendArmed })
}
