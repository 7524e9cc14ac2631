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

// clockSync keeps common time, that of rank 0's source. Processes with that source have nothing to do. Of those with
// another the lowest rank is the leader: it asks rank 0 and tells the others how to correct their clocks, before they
// have to. All that happens in cycles which begin at the same moments everywhere, so that rank 0 is there to answer
// even if its program makes no calls.
type clockSync struct {
	clock      clocksync.Clock
	engine     *proto.Engine
	role       clockRole
	leader     int           // who tells how to correct this clock
	followers  []int         // whom a leader tells
	epoch      int64         // common time at which cycles are counted from
	quit       chan struct{} // nil: no cycles
	done       sync.WaitGroup
	pingCount  atomic.Int64 // that came
	lastSample atomic.Pointer[clocksync.Sample]
	global     bool          // see WtimeIsGlobal
	fit        clocksync.Fit // of a leader
}

var errQuit = errors.New("the process finalizes")

type clockRole uint8

const (
	roleNone      clockRole = iota // has rank 0's source, or everybody has
	roleReference                  // is rank 0, and there are others
	roleLeader
	roleFollower
)

// keeper is the engine's proto.ClockHandler.
var _ proto.ClockHandler = (*clockSync)(nil)

// init takes a source, or the machine's.
func (k *clockSync) init(s clocksync.Source, e *proto.Engine) (err error) {
	if s.Now == nil {
		if s, err = clocksync.Local(); err != nil {
			return err
		}
	}
	k.engine = e
	k.clock.Init(s)
	return nil
}

// Stamp is the time by this process's source.
func (k *clockSync) Stamp() int64 {
	k.pingCount.Add(1)
	return k.clock.Source().Now()
}

// Pong notes an answer.
func (k *clockSync) Pong(peer int, sent, there, back int64) {
	if peer == 0 {
		k.lastSample.Store(&clocksync.Sample{Sent: sent, Remote: there, Received: back})
	}
}

// Adjust corrects the clock as the leader says. It may come before this process has heard of its leader, but never before
// that has joined, and so not before this one has all it needs.
func (k *clockSync) Adjust(peer int, w [5]uint64) bool {
	b, ok := clocksync.DecodeCorrection(w)
	if !ok || k.role != roleFollower || peer != k.leader {
		return false
	}
	k.clock.Steer(b)
	return true
}

// What is asked at a time.
const (
	initialBursts   = 12 // in Init
	samplesPerBurst = 8  // in a burst
)

// How long who asks waits for an answer, and who answers for another question.
const (
	sampleTimeout  = 5 * time.Millisecond
	serveIdleLimit = time.Millisecond
)

// sampleBurst asks rank 0 a few times in a row. Patience 0 has no end but that of the engine.
func (k *clockSync) sampleBurst(patience time.Duration) ([]clocksync.Sample, error) {
	var got []clocksync.Sample
	for range samplesPerBurst {
		sent, err := k.engine.SendClockPing(0)
		if err != nil {
			return nil, err
		}
		for {
			if s := k.lastSample.Swap(nil); s != nil && s.Sent == sent {
				got = append(got, *s)
				break
			}
			if patience > 0 && k.clock.Source().Now()-sent > int64(patience) {
				return got, nil
			}
			if err := k.engine.Poll(); err != nil {
				return nil, err
			}
			runtime.Gosched()
		}
	}
	return got, nil
}

// measureOffset is what a leader does as it joins: it finds the first line.
func (k *clockSync) measureOffset() error {
	for range initialBursts {
		got, err := k.sampleBurst(0)
		if err != nil {
			return err
		}
		k.fit.Add(got)
		time.Sleep(500 * time.Microsecond)
	}
	return nil
}

// start begins the cycles.
func (k *clockSync) start() {
	if k.role == roleNone {
		return
	}
	k.quit = make(chan struct{})
	k.done.Go(func() {
		// The first error ends it: the engine has broken, as everybody finds out who communicates.
		for k.cycle() == nil {
			continue
		}
	})
}

// stop ends the cycles.
func (k *clockSync) stop() {
	if k.quit != nil {
		close(k.quit)
		k.done.Wait()
		k.quit = nil
	}
}

// sleepUntil waits until common time has got to a moment.
func (k *clockSync) sleepUntil(until int64) error {
	select {
	case <-k.quit:
		return errQuit
	case <-time.After(time.Duration(until - k.clock.Now())):
		return nil
	}
}

func (k *clockSync) cycle() error {
	begins, length := clocksync.NextCycle(k.clock.Now() - k.epoch)
	begins += k.epoch
	if k.role != roleFollower {
		if err := k.sleepUntil(begins); err != nil {
			return err
		}
		if k.role == roleReference {
			return k.serve(begins + length/4)
		}
		return k.adjust(length)
	}
	// The leader asks now, and will not be obeyed before a quarter of the cycle is over.
	for i := range int64(4) {
		if err := k.sleepUntil(begins + (i+1)*length/16); err != nil {
			return err
		}
		if err := k.engine.Poll(); err != nil {
			return err
		}
	}
	return nil
}

// serve answers, that is makes progress, until no question has come for a while.
func (k *clockSync) serve(latest int64) error {
	seen, since := k.pingCount.Load(), k.clock.Now()
	for now := since; now < latest && now-since < int64(serveIdleLimit); now = k.clock.Now() {
		if err := k.engine.Poll(); err != nil {
			return err
		}
		if n := k.pingCount.Load(); n != seen {
			seen, since = n, now
		}
		runtime.Gosched()
	}
	return nil
}

// adjust is a leader's part in a cycle: it asks, and tells.
func (k *clockSync) adjust(length int64) error {
	now := k.clock.Source().Now()
	got, err := k.sampleBurst(sampleTimeout)
	if err != nil {
		return err
	}
	if !k.fit.Add(got) {
		return nil
	}
	b := k.fit.Correction(now + length/4)
	for _, peer := range k.followers {
		if err := k.engine.SendClockAdjust(peer, b.Encode()); err != nil {
			return err
		}
	}
	k.clock.Steer(b)
	return nil
}
