package rdma

import (
	"github.com/ibrun/ibrun/fabric/rdma/internal/sleep"
)

// sleepRails returns what the sleeper watches. The queues report their first completion already, see devices.Rail.Open.
func sleepRails(rails []*rail) (list []sleep.Rail) {
	for _, r := range rails {
		list = append(list, sleep.Rail{Device: r.Dev.Name(), Channel: r.Channel, Send: r.SendCQ, Recv: r.RecvCQ})
	}
	return list
}

// Arm makes the rails report the next completions through the sleeper's file descriptor. Completions of sends are reported only
// if something waits for them. From now on, transfers that other goroutines begin wake the caller.
func (d *domain) Arm() (int, bool, error) {
	if d.stopped {
		return d.armStopped()
	}
	if d.sleeper.Armed() {
		if err := d.disarm(); err != nil {
			return d.armLost(err)
		}
	}
	d.events.Release(&d.recvs)
	d.poster.RingDeferred()
	d.events.Begin(nil)
	d.sleeper.Begin()
	if err := d.sleeper.Notify(d.needSendEvents()); err != nil {
		return d.armLost(err)
	}
	if err := d.progressAll(); err != nil {
		return d.armLost(err)
	}
	d.poster.RingDeferred()
	if d.sleeper.Ready(d.needSendEvents()) || d.events.Pending() || d.cm.closing.Failures() > 0 {
		return d.sleeper.FD(), true, nil
	}
	now, at := d.clock.Elapsed(), d.clock.Next
	if d.recvs.Incomplete() {
		at = min(at, d.recvs.Retry.At)
	}
	return d.sleeper.FD(), false, d.sleeper.Until(now, at)
}

// disarm ends the sleep. The next progress reads the clock, since an expired timer may have caused the wakeup.
func (d *domain) disarm() error {
	d.clock.FastPolls, d.clock.ReadAt = 0, d.clock.Polls
	return d.sleeper.Disarm()
}

// needSendEvents reports whether something waits for completions of sends.
func (d *domain) needSendEvents() bool {
	return d.poster.Transfers.Active.Load() > 0 || d.sleeper.SendBlocked || len(d.controlDue) > 0 || d.cm.closing.Len() > 0
}
