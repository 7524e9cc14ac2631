package rdma

import (
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/datagrams"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
)

const (
	// maxFastPolls is how many Polls in a row may skip progress. It is so large that between a message and its answer there is
	// usually no Poll that calls progress.
	maxFastPolls = 63
	// progressEvery: while messages arrive, only one Poll in progressEvery calls progress, because the caller waits for the
	// messages. The first Poll after a sleep always does: an expired timer may have ended the sleep.
	progressEvery = 4
)

// Poll receives messages. It does the other work of the domain only now and then, as long as nothing waits for that work.
func (d *domain) Poll(evs []fabric.Event) (int, error) {
	if d.stopped {
		return d.pollStopped(evs)
	}
	woken := d.sleeper.Armed()
	if woken {
		if err := d.disarm(); err != nil {
			d.events.Release(&d.recvs)
			d.events.Begin(nil)
			return d.pollLost(evs, err)
		}
	}
	n, err := d.completions.pollReceives()
	full := d.clock.FastPolls == 0 || d.workPending()
	if !full {
		d.clock.FastPolls--
		if n == 0 && err == nil && d.events.Idle() {
			return 0, nil
		}
	}
	d.events.Release(&d.recvs)
	d.events.Begin(evs)
	err = d.completions.handleReceives(n, err)
	ready := d.events.Ready() // the caller waits for these
	if err == nil && full && (woken || !ready || d.clock.Polls%progressEvery == 0) {
		err = d.progress()
	}
	if err == nil && d.events.Pending() {
		d.events.Deliver(&d.recvs, int32(d.self))
	}
	filled := d.events.End()
	if d.poster.Pending() {
		d.poster.RingDeferred()
	}
	if err != nil {
		return d.pollLost(evs, err)
	}
	return filled, nil
}

// workPending reports whether there is work besides receiving: transfers, messages that wait for a
// doorbell, peers to connect to or being connected to, control messages that are due, messages to
// this process itself. Any other work sets Clock.FastPolls to 0.
func (d *domain) workPending() bool {
	return d.poster.Transfers.Active.Load() != 0 || d.poster.Pending() || d.cm.anyRequested.Load() ||
		d.cm.connecting.Len() != 0 || len(d.controlDue) != 0 || d.events.Loopback.Pending()
}

// progressAll polls for messages and does all other work.
func (d *domain) progressAll() error {
	n, err := d.completions.pollReceives()
	if err := d.completions.handleReceives(n, err); err != nil {
		return err
	}
	return d.progress()
}

// progress does all work but receiving: send completions, datagrams of the connection manager, timers, failed connections,
// control messages that are due, and new connections.
func (d *domain) progress() error {
	d.clock.FastPolls = maxFastPolls
	if d.deviceEvents.Len() > 0 {
		d.handleDeviceEvents()
	}
	if d.cm.Resolver.Results() > 0 {
		d.cm.handleResolved()
	}
	for _, r := range d.completions.live {
		if _, err := d.completions.pollSends(r); err != nil {
			return err
		}
	}
	if d.recvs.Incomplete() {
		if err := d.recvs.PostAgain(d.clock.Elapsed()); err != nil {
			return err
		}
	}
	d.cm.handleDatagrams()
	if d.clock.Due() {
		if err := d.tick(d.clock.Read()); err != nil {
			return err
		}
		if d.clock.Rare() { // the next Poll is to read the clock as well
			d.clock.FastPolls = 0
		}
	}
	if err := d.handleFailures(); err != nil {
		return err
	}
	if len(d.controlDue) > 0 {
		d.sendControlDue()
	}
	if d.cm.anyRequested.Load() {
		d.cm.connectRequested()
	}
	return nil
}

// tick runs the timers that have expired. It returns the error of a lost device.
func (d *domain) tick(now time.Duration) error {
	d.clock.Running(now, d.liveness.Interval)
	if now < d.clock.Next {
		return nil
	}
	d.clock.Next = liveness.Never
	if d.cm.Socket.Failed {
		if d.cm.Socket.Recover() != nil {
			d.clock.Schedule(now + datagrams.RecoverInterval) // the link is still down
		}
	}
	if d.cm.closing.Len() > 0 {
		d.clock.Schedule(d.cm.closing.StepAt)
	}
	d.cm.runConnectTimers(now)
	return d.keepaliveTick(now)
}
