package proto

import (
	"slices"
	"sync/atomic"
)

// A schedule whose next step is a StepPoll waits for words in memory that other processes write. No event tells that they have
// changed, so the step is tried with every poll of the transport. A process that sleeps is counted in the words for sleepers of
// these schedules, and is woken by the processes that store the words.

// polledSchedules are the schedules whose next step is a StepPoll that could not be done yet, in the order in which they were
// added. It is protected by the engine's lock.
type polledSchedules struct {
	list []*Schedule
	// counted are the words in which this process is counted while it sleeps.
	counted []*uint64
}

// add appends a schedule, unless it is there.
func (q *polledSchedules) add(e *Engine, s *Schedule) {
	if !s.polled {
		s.polled = true
		q.list = append(q.list, s)
		e.waiters.rouseSleeper() // it is not counted as a sleeper of this schedule
	}
}

// pollSchedules tries the next step of the polled schedules, and reports whether any could be done. If that of a schedule cannot
// be done, it does not try the next ones in the same context, which come after it.
func (e *Engine) pollSchedules() (done bool) {
	q := &e.polled
	list, n := q.list, 0
	for _, s := range list {
		context := s.req.route.Context
		if n != 0 && list[n-1].req.route.Context == context {
			list[n] = s
			n++
			continue
		}
		step, _ := s.program.Step(s.next)
		s.from, s.fromRank = step.Peer, step.Rank
		err := s.program.Do(s.next)
		if err == ErrNotYet && e.failure.departed {
			if lost := e.departureError(s.waitsFor()); lost != nil {
				err = lost
			}
		}
		if err == ErrNotYet {
			list[n] = s
			n++
			continue
		}
		done, s.polled = true, false
		s.fail(err)
		s.next++
		if t := &s.req.transfer; !t.queued { // steps that take long are done where the list does not change
			t.state = transferSchedule
			e.transfers.push(t)
		}
	}
	clear(list[n:])
	q.list = list[:n]
	return done
}

// dropPolled ends the polled schedules of a context with an error. Afterwards the memory may be unmapped.
func (e *Engine) dropPolled(context uint32, err error) {
	q := &e.polled
	e.uncountSleeper()
	q.list = slices.DeleteFunc(q.list, func(s *Schedule) bool {
		if s.req.route.Context != context {
			return false
		}
		s.polled = false
		s.fail(err)
		if t := &s.req.transfer; !t.queued {
			t.state = transferSchedule
			e.transfers.push(t)
		}
		return true
	})
	e.waiters.rouseSleeper() // it is not counted any more
}

// waitsFor returns the route from the process for which a polled schedule waits.
func (s *Schedule) waitsFor() Route {
	return Route{Context: s.req.route.Context, Peer: s.from, Match: Match{Rank: s.fromRank}}
}

// watchPolled sends WATCH to the processes for which polled schedules wait.
func (e *Engine) watchPolled() {
	for _, s := range e.polled.list {
		e.watchRoute(s.waitsFor(), messageMatches)
	}
}

// countSleeper counts this process as a sleeper of all polled schedules. Then it tries their steps once more, and reports whether
// any could be done: a process that stores a word either finds the count or has stored the word before.
func (e *Engine) countSleeper() (done bool) {
	q := &e.polled
	for _, s := range q.list {
		step, _ := s.program.Step(s.next)
		if !slices.Contains(q.counted, step.Sleepers) {
			q.counted = append(q.counted, step.Sleepers)
			atomic.AddUint64(step.Sleepers, 1)
		}
	}
	return len(q.list) != 0 && e.pollSchedules()
}

// uncountSleeper ends what countSleeper has begun. It must be called before a schedule can end: afterwards the memory may be
// unmapped.
func (e *Engine) uncountSleeper() {
	q := &e.polled
	for _, w := range q.counted {
		atomic.AddUint64(w, ^uint64(0))
	}
	clear(q.counted)
	q.counted = q.counted[:0]
}
