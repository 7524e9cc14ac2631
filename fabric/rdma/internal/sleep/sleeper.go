package sleep

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/verbs"
)

// Rail is what reports the completions of one device.
type Rail struct {
	Device  string // its name
	Channel *verbs.Channel
	Send    *verbs.CQ
	Recv    *verbs.CQ // nil if no messages are received over the rail
}

// Sleeper makes completion queues report their next completion by a file descriptor. The zero
// Sleeper is closed.
type Sleeper struct {
	// The owner sets these, and Begin and Ready clear them.
	MoreReady   bool // a poll of a completion queue has returned as many as fit, so there may be more
	SendsFreed  bool // what a Send may wait for was freed since Begin
	SendBlocked bool // a Send has failed for want of a slot or of room in a queue

	armed    atomic.Bool // see Armed
	rails    []rail
	lost     func(rail int, err error) error
	report   func(text string) // may be nil
	refusing bool              // a device has refused to report its next completion; see refusedInterval
	reported bool              // the user knows it
	waker    waker
}

// rail is a rail with the state of its queues.
type rail struct {
	Rail
	send, recv queue
	ignored    bool
}

// queue is the state of a completion queue.
type queue struct {
	armed   bool // it reports its next completion
	refused int  // how often in a row the device has refused to report it
}

const (
	// refusedInterval is how long a caller sleeps if a device refuses to report completions. A device
	// that always does is not opened.
	refusedInterval = time.Millisecond
	// MaxRefused is how many refusals in a row to report the completions of one queue there are
	// before the user is told.
	MaxRefused = 8
)

// Open opens the file descriptor, for rails whose queues report their next completion already. lost
// is called when a rail is lost; it returns an error if the domain is lost with it, and otherwise
// has called Ignore. report tells the user about a device; it may be nil.
func (s *Sleeper) Open(rails []Rail, lost func(rail int, err error) error, report func(text string)) error {
	if err := s.waker.open(rails); err != nil {
		return err
	}
	s.lost, s.report = lost, report
	for _, r := range rails {
		s.rails = append(s.rails, rail{Rail: r, send: queue{armed: true}, recv: queue{armed: r.Recv != nil}})
	}
	return nil
}

// FD returns the file descriptor that becomes readable.
func (s *Sleeper) FD() int { return s.waker.fd() }

// Armed reports whether the caller may sleep: Begin was called, and Disarm was not since then.
func (s *Sleeper) Armed() bool { return s.armed.Load() }

// Begin records that the caller may sleep from now on.
func (s *Sleeper) Begin() {
	s.SendsFreed, s.MoreReady, s.refusing = false, false, false
	s.armed.Store(true) // before the owner looks for work that other goroutines have added
}

// Notify makes the completion queues report their next completion, those of sends only if sends is
// set. Begin must have been called. If a device refuses, the next Notify asks again, and the caller
// does not sleep for long until then. It returns an error only if the domain is lost.
func (s *Sleeper) Notify(sends bool) error {
	for i := range s.rails {
		r := &s.rails[i]
		if r.ignored {
			continue
		}
		if r.Recv != nil && !r.recv.armed {
			if err := s.notify(i, r.Recv, &r.recv); err != nil {
				return err
			}
		}
		if sends && !r.send.armed {
			if err := s.notify(i, r.Send, &r.send); err != nil {
				return err
			}
		}
	}
	return nil
}

// notify makes a completion queue of a rail report its next completion.
func (s *Sleeper) notify(i int, cq *verbs.CQ, q *queue) error {
	err := cq.Notify(false)
	if q.armed = err == nil; q.armed {
		q.refused = 0
		return nil
	}
	if errors.Is(err, verbs.ErrDeviceLost) {
		return s.lost(i, err)
	}
	s.refusing = true
	if q.refused++; q.refused >= MaxRefused && !s.reported && s.report != nil {
		s.reported = true
		s.report(fmt.Sprintf("device %s does not report completions any more, so a process that waits looks for them every %v: %v",
			s.rails[i].Device, refusedInterval, err))
	}
	return nil
}

// SendsMissing reports whether a rail does not report its next completion of a send because it was
// not asked to: the owner, which must be waiting for one, began to wait after Notify.
func (s *Sleeper) SendsMissing() bool {
	return !s.refusing && slices.ContainsFunc(s.rails, func(r rail) bool { return !r.ignored && !r.send.armed })
}

// Ready reports whether the caller must not sleep: because there may be more completions, because a
// Send that has failed may be tried again, or because completions of sends that the owner waits for
// are not reported.
func (s *Sleeper) Ready(sends bool) bool {
	blocked := s.SendBlocked
	s.SendBlocked = false
	return blocked && s.SendsFreed || s.MoreReady || sends && s.SendsMissing()
}

// Until makes the file descriptor readable at a time, by the clock of the owner, by which it is
// now.
func (s *Sleeper) Until(now, at time.Duration) error {
	if s.refusing {
		at = min(at, now+refusedInterval)
	}
	return s.waker.setTimer(now, at)
}

// Disarm ends the sleep. It consumes what has made the file descriptor readable.
func (s *Sleeper) Disarm() error {
	s.armed.Store(false)
	events, err := s.waker.drain()
	if err != nil {
		return err
	}
	for i := range s.rails {
		if events&(1<<i) == 0 {
			continue
		}
		if err := s.take(i); err != nil {
			return err
		}
	}
	return nil
}

// take takes the events of the completion channel of a rail. The queues that they are of report no
// further completion.
func (s *Sleeper) take(i int) error {
	r := &s.rails[i]
	for {
		cq, err := r.Channel.Next()
		if err != nil {
			return s.lost(i, err)
		}
		switch cq {
		case nil:
			return nil
		case r.Recv:
			r.recv.armed = false
		default:
			r.send.armed = false
		}
	}
}

// Wake wakes the sleeping caller immediately, so that it looks for work. Any goroutine may call it.
func (s *Sleeper) Wake() error { return s.waker.wake() }

// WakeArmed wakes a caller that may sleep. Any goroutine may call it, after it has added what the
// caller is to find: Begin is called before the owner looks for that. If the wakeup fails, the
// owner finds it when it polls next.
func (s *Sleeper) WakeArmed() {
	if s.Armed() {
		_ = s.Wake()
	}
}

// Ignore makes a rail no longer count, and watches it no more: the descriptors of a lost device are
// always readable.
func (s *Sleeper) Ignore(i int) {
	if r := &s.rails[i]; !r.ignored {
		r.ignored = true
		s.waker.ignore(r.Channel)
	}
}

// Close closes the file descriptor, if it is open. Wake does nothing from now on.
func (s *Sleeper) Close() error { return s.waker.close() }
