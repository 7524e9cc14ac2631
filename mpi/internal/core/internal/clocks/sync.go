package clocks

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/mpi/internal/clocksync"
	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// Sync is the clock synchronizer of a process. It maintains common time, which is the time of rank
// 0's clock source. Processes that read the same source have nothing to do. Of the processes with
// another source, the lowest rank is the leader. It measures the difference to rank 0 and sends
// corrections to the others in advance. This happens in cycles that begin at the same time in all
// processes, so rank 0 is ready to answer even if its program makes no MPI calls.
type Sync struct {
	Clock     clocksync.Clock // the common time; it is set by Init
	engine    *proto.Engine
	role      role
	leader    int           // rank that sends corrections for this clock; 0 if it is rank 0's
	followers []int         // ranks to which a leader sends corrections, and rank 0 the state
	epoch     int64         // common time of the start of the first cycle
	quit      chan struct{} // nil if there are no cycles
	done      sync.WaitGroup
	pingCount atomic.Int64 // calls of Stamp: in rank 0, the number of pings received
	agreement agreement
	fit       clocksync.Fit // of a leader

	mu      sync.Mutex
	answers []clocksync.Sample // of a leader: those that sampleBurst has not taken
}

var errQuit = errors.New("the process finalizes")

type role uint8

const (
	roleNone      role = iota // reads rank 0's source, or all processes read the same one
	roleReference             // is rank 0, and other sources exist
	roleLeader
	roleFollower
)

// Sync implements proto.ClockHandler.
var _ proto.ClockHandler = (*Sync)(nil)

// Init sets the source; the zero Source means the machine's clock.
func (k *Sync) Init(s clocksync.Source, e *proto.Engine) (err error) {
	if s.Now == nil {
		if s, err = clocksync.Local(); err != nil {
			return err
		}
	}
	k.engine = e
	k.Clock.Init(s)
	return nil
}

// Stamp returns the time of this process's source.
func (k *Sync) Stamp() int64 {
	k.pingCount.Add(1)
	return k.Clock.Source().Now()
}

// maxAnswers is the number of answers that a leader keeps. Only answers that arrive after their
// timeout accumulate.
const maxAnswers = 64

// Pong stores rank 0's answer to a ping, for sampleBurst.
func (k *Sync) Pong(peer int, sent, there, back int64, answer uint64) {
	if peer != 0 || k.role != roleLeader {
		return
	}
	k.agreement.allowed.Store(decodeAllowed(answer))
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.answers) < maxAnswers {
		k.answers = append(k.answers, clocksync.Sample{Sent: sent, Remote: there, Received: back})
	}
}

// takeAnswers appends the answers that have arrived to samples. It reports whether the one to the
// ping sent at sent is among them.
func (k *Sync) takeAnswers(samples []clocksync.Sample, sent int64) ([]clocksync.Sample, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	answered := slices.ContainsFunc(k.answers, func(s clocksync.Sample) bool { return s.Sent == sent })
	samples = append(samples, k.answers...)
	k.answers = k.answers[:0]
	return samples, answered
}

// Adjust makes the clock follow a correction from the leader. role, leader and clock are set when
// it is called: a leader sends its first correction after the barrier at the end of Begin, which
// every process enters only when they are.
func (k *Sync) Adjust(peer int, w [5]uint64) bool {
	b, ok := clocksync.DecodeCorrection(w)
	if !ok || k.role != roleFollower || peer != k.leader {
		return false
	}
	k.Clock.Steer(b)
	return true
}

// Number of samples.
const (
	initialBursts   = 12 // in Begin
	samplesPerBurst = 8  // in a burst
)

// Time limits.
const (
	sampleTimeout  = 5 * time.Millisecond
	serveIdleLimit = time.Millisecond
)

// sampleBurst takes a few samples of rank 0's clock in a row. Each waits for at most timeout; 0
// means no limit except that of the engine. An answer that arrives later is part of the next burst:
// under load there may be no others.
func (k *Sync) sampleBurst(timeout time.Duration) ([]clocksync.Sample, error) {
	var got []clocksync.Sample
	for range samplesPerBurst {
		bound, roundTrip := k.state()
		sent, err := k.engine.Clock().SendPing(0, bound, roundTrip)
		if err != nil {
			return nil, err
		}
		for answered := false; ; {
			if got, answered = k.takeAnswers(got, sent); answered {
				break
			}
			if timeout > 0 && k.Clock.Source().Now()-sent > int64(timeout) {
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

// state returns what a leader sends to rank 0 about its clock: see Ping. It is zero before the
// clock has started.
func (k *Sync) state() (bound, roundTrip uint64) {
	if k.fit.Clock == nil {
		return 0, 0
	}
	b := k.Clock.Bound()
	return b.Encode(b.At), uint64(k.fit.RoundTrip())
}

// measureOffset takes the first samples of a leader, from which it fits its first line.
func (k *Sync) measureOffset() error {
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

// Start starts the cycles.
func (k *Sync) Start() {
	if k.role == roleNone {
		return
	}
	k.quit = make(chan struct{})
	k.done.Go(func() {
		// The first error ends the loop: the engine has failed, which every later call reports as
		// well.
		for k.cycle() == nil {
			continue
		}
	})
}

// Stop ends the cycles.
func (k *Sync) Stop() {
	if k.quit != nil {
		close(k.quit)
		k.done.Wait()
		k.quit = nil
	}
}

// sleepUntil blocks until a common time. It returns errQuit when Stop is called.
func (k *Sync) sleepUntil(until int64) error {
	select {
	case <-k.quit:
		return errQuit
	case <-time.After(time.Duration(until - k.Clock.Now())):
		return nil
	}
}

// cycle runs one cycle in this process's role.
func (k *Sync) cycle() error {
	begins, length := clocksync.NextCycle(k.Clock.Now() - k.epoch)
	begins += k.epoch
	if k.role != roleFollower {
		if err := k.sleepUntil(begins); err != nil {
			return err
		}
		if k.role == roleReference {
			if err := k.serve(begins + length/4); err != nil {
				return err
			}
			return k.report()
		}
		return k.adjust(length)
	}
	// The leader measures now. Its correction takes effect after a quarter of the cycle, so it
	// arrives in time if this process makes progress until then.
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

// serve makes progress, which answers pings, until none has arrived for serveIdleLimit or latest is
// reached.
func (k *Sync) serve(latest int64) error {
	seen, since := k.pingCount.Load(), k.Clock.Now()
	for now := since; now < latest && now-since < int64(serveIdleLimit); now = k.Clock.Now() {
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

// adjust is a leader's work in a cycle: it measures, and sends the correction to its followers.
func (k *Sync) adjust(length int64) error {
	now := k.Clock.Source().Now()
	got, err := k.sampleBurst(sampleTimeout)
	if err != nil {
		return err
	}
	if !k.fit.Add(got) {
		return nil
	}
	b := k.fit.Correction(now + length/4)
	state := encodeAllowed(k.agreement.allowed.Load())
	for _, peer := range k.followers {
		err := k.engine.Clock().SendAdjust(peer, b.Encode())
		if err = errors.Join(err, k.engine.Clock().SendState(peer, state)); err != nil {
			return err
		}
	}
	k.Clock.Steer(b)
	return nil
}
