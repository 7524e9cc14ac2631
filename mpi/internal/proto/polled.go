package proto

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// A schedule whose next step is a StepPoll waits for words in memory that other processes write. No
// event tells that they have changed, so the step is tried with every poll of the transport. A
// process that sleeps is counted in the words for sleepers of these schedules, and is woken by the
// processes that store the words.

// polledSchedules are the schedules whose next step is a StepPoll that could not be done yet. Those
// of a context are in the order in which they were started. The engine's lock guards it.
type polledSchedules struct {
	list    []*Schedule
	started uint64 // number of schedules that have been started
	// counted are the words in which this process is counted while it sleeps.
	counted []*uint64
}

// sharesQueue reports whether the StepPolls of two schedules are done in the order in which the
// schedules were started.
func (s *Schedule) sharesQueue(x *Schedule) bool {
	return s.queue == x.queue && s.req.route.Context == x.req.route.Context
}

// add adds a schedule, unless it is there.
func (q *polledSchedules) add(w *waiters, s *Schedule) {
	if s.polled {
		return
	}
	s.polled = true
	i := len(q.list)
	for j, x := range q.list {
		if x.req.route.Context == s.req.route.Context && x.number > s.number {
			i = j
			break
		}
	}
	q.list = slices.Insert(q.list, i, s)
	w.rouseSleeper() // it is not counted as a sleeper of this schedule
}

// poll tries the next step of the polled schedules, and reports whether any, or a part of one,
// could be done. If that of a schedule has not been done, it does not try those that follow it in
// the list with the same context and queue.
func (ss *Schedules) poll() (done bool) {
	q := &ss.polled
	list, n := q.list, 0
	for _, s := range list {
		if s.err == nil && n != 0 && list[n-1].sharesQueue(s) {
			list[n] = s
			n++
			continue
		}
		err := s.err // of a message
		if err == nil {
			err = s.program.Do(s.next)
		}
		if err == ErrNotYet {
			step, _ := s.program.Step(s.next)
			s.from, s.fromRank = step.Peer, step.Rank
			if ss.waiters.failure.departed {
				err = cmp.Or(ss.departures.errorOf(s.waitsFor()), err)
			}
		}
		done = done || err != ErrNotYet
		if err == ErrNotYet || err == ErrPartDone {
			list[n] = s
			n++
			continue
		}
		s.polled = false
		s.fail(err)
		s.next++
		ss.endOrQueue(s)
	}
	clear(list[n:])
	q.list = list[:n]
	return done
}

// endOrQueue ends a schedule that has failed or has no more steps. It queues any other: the next
// steps may change the list.
func (ss *Schedules) endOrQueue(s *Schedule) {
	_, more := s.program.Step(s.next)
	if s.pending == 0 && (s.err != nil || !more) {
		ss.end(s)
		return
	}
	ss.transfers.pushSchedule(s)
}

// dropPolled ends the polled schedules of a context with an error. Afterwards the memory may be
// unmapped.
func (ss *Schedules) dropPolled(context uint32, err error) {
	q := &ss.polled
	q.uncountSleeper()
	q.list = slices.DeleteFunc(q.list, func(s *Schedule) bool {
		if s.req.route.Context != context {
			return false
		}
		s.polled = false
		s.fail(err)
		ss.endOrQueue(s)
		return true
	})
	ss.waiters.rouseSleeper() // it is not counted any more
}

// waitsFor returns the route from the process for which a polled schedule waits.
func (s *Schedule) waitsFor() Route {
	return Route{Context: s.req.route.Context, Peer: s.from, Match: Match{Rank: s.fromRank}}
}

// countSleeper counts this process as a sleeper of all polled schedules. The caller then arms the
// transport, and tries their steps once more: a process that stores a word either finds the count
// or has stored the word before.
func (q *polledSchedules) countSleeper() {
	for _, s := range q.list {
		step, _ := s.program.Step(s.next)
		if !slices.Contains(q.counted, step.Sleepers) {
			q.counted = append(q.counted, step.Sleepers)
			atomic.AddUint64(step.Sleepers, 1)
		}
	}
}

// uncountSleeper ends what countSleeper has begun. It must be called before a schedule can end:
// afterwards the memory may be unmapped.
func (q *polledSchedules) uncountSleeper() {
	for _, w := range q.counted {
		atomic.AddUint64(w, ^uint64(0))
	}
	clear(q.counted)
	q.counted = q.counted[:0]
}
