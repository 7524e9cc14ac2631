package mpi

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/mpi/internal/clocksync"
	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// keeper keeps common time, that of rank 0's source. Processes with that source have nothing to do. Of those with
// another the lowest rank is the leader: it asks rank 0 and tells the others how to correct their clocks, before they
// have to. All that happens in cycles which begin at the same moments everywhere, so that rank 0 is there to answer
// even if its program makes no calls.
type keeper struct {
	clock  clocksync.Clock
	e      *proto.Engine
	part   part
	leader int           // who tells how to correct this clock
	follow []int         // whom a leader tells
	began  int64         // common time at which cycles are counted from
	quit   chan struct{} // nil: no cycles
	ended  sync.WaitGroup
	pings  atomic.Int64 // that came
	pong   atomic.Pointer[clocksync.Sample]
	global bool          // see WtimeIsGlobal
	fit    clocksync.Fit // of a leader
}

var errQuit = errors.New("the process finalizes")

type part uint8

const (
	bystander part = iota // has rank 0's source, or everybody has
	reference             // is rank 0, and there are others
	leader
	follower
)

// keeper is the engine's proto.Timekeeper.
var _ proto.ClockHandler = (*keeper)(nil)

// init takes a source, or the machine's.
func (k *keeper) init(s clocksync.Source, e *proto.Engine) (err error) {
	if s.Now == nil {
		if s, err = clocksync.Local(); err != nil {
			return err
		}
	}
	k.e = e
	k.clock.Init(s)
	return nil
}

// Stamp is the time by this process's source.
func (k *keeper) Stamp() int64 {
	k.pings.Add(1)
	return k.clock.Source().Now()
}

// Pong notes an answer.
func (k *keeper) Pong(peer int, sent, there, back int64) {
	if peer == 0 {
		k.pong.Store(&clocksync.Sample{Sent: sent, There: there, Back: back})
	}
}

// Adjust corrects the clock as the leader says. It may come before this process has heard of its leader, but never before
// that has joined, and so not before this one has all it needs.
func (k *keeper) Adjust(peer int, w [5]uint64) bool {
	b, ok := clocksync.BendOf(w)
	if !ok || k.part != follower || peer != k.leader {
		return false
	}
	k.clock.Steer(b)
	return true
}

// What is asked at a time.
const (
	bursts    = 12 // in Init
	questions = 8  // in a burst
)

// How long who asks waits for an answer, and who answers for another question.
const (
	patience = 5 * time.Millisecond
	company  = time.Millisecond
)

// burst asks rank 0 a few times in a row. Patience 0 has no end but that of the engine.
func (k *keeper) burst(patience time.Duration) ([]clocksync.Sample, error) {
	var got []clocksync.Sample
	for range questions {
		sent, err := k.e.SendClockPing(0)
		if err != nil {
			return nil, err
		}
		for {
			if s := k.pong.Swap(nil); s != nil && s.Sent == sent {
				got = append(got, *s)
				break
			}
			if patience > 0 && k.clock.Source().Now()-sent > int64(patience) {
				return got, nil
			}
			if err := k.e.Poll(); err != nil {
				return nil, err
			}
			runtime.Gosched()
		}
	}
	return got, nil
}

// begin is what a leader does as it joins: it finds the first line.
func (k *keeper) begin() error {
	for range bursts {
		got, err := k.burst(0)
		if err != nil {
			return err
		}
		k.fit.Add(got)
		time.Sleep(500 * time.Microsecond)
	}
	return nil
}

// run begins the cycles.
func (k *keeper) run() {
	if k.part == bystander {
		return
	}
	k.quit = make(chan struct{})
	k.ended.Go(func() {
		// The first error ends it: the engine has broken, as everybody finds out who communicates.
		for k.cycle() == nil {
			continue
		}
	})
}

// stop ends the cycles.
func (k *keeper) stop() {
	if k.quit != nil {
		close(k.quit)
		k.ended.Wait()
		k.quit = nil
	}
}

// rest waits until common time has got to a moment.
func (k *keeper) rest(until int64) error {
	select {
	case <-k.quit:
		return errQuit
	case <-time.After(time.Duration(until - k.clock.Now())):
		return nil
	}
}

func (k *keeper) cycle() error {
	begins, length := clocksync.Next(k.clock.Now() - k.began)
	begins += k.began
	if k.part != follower {
		if err := k.rest(begins); err != nil {
			return err
		}
		if k.part == reference {
			return k.attend(begins + length/4)
		}
		return k.adjust(length)
	}
	// The leader asks now, and will not be obeyed before a quarter of the cycle is over.
	for i := range int64(4) {
		if err := k.rest(begins + (i+1)*length/16); err != nil {
			return err
		}
		if err := k.e.Poll(); err != nil {
			return err
		}
	}
	return nil
}

// attend answers, that is makes progress, until no question has come for a while.
func (k *keeper) attend(latest int64) error {
	seen, since := k.pings.Load(), k.clock.Now()
	for now := since; now < latest && now-since < int64(company); now = k.clock.Now() {
		if err := k.e.Poll(); err != nil {
			return err
		}
		if n := k.pings.Load(); n != seen {
			seen, since = n, now
		}
		runtime.Gosched()
	}
	return nil
}

// adjust is a leader's part in a cycle: it asks, and tells.
func (k *keeper) adjust(length int64) error {
	now := k.clock.Source().Now()
	got, err := k.burst(patience)
	if err != nil {
		return err
	}
	if !k.fit.Add(got) {
		return nil
	}
	b := k.fit.Bend(now + length/4)
	for _, peer := range k.follow {
		if err := k.e.SendClockAdjust(peer, b.Words()); err != nil {
			return err
		}
	}
	k.clock.Steer(b)
	return nil
}
