package proto

import (
	"slices"
	"sync/atomic"
)

// sleeper is a goroutine that sleeps until its goal may have been reached. Sleepers are reused.
type sleeper struct {
	wake        chan struct{} // capacity 1: receives when the sleeper has been removed from parked
	onTransport bool          // it sleeps on the transport instead
	watch       watch
	req         *Request // what it waits for; nil: something else, see watchers
	other       *sleeper // the next one that waits for the same request
	stop        *stopper // ends the wait early; nil: nothing does

	prev, next *sleeper // in parked; next also in the free list
}

// parkedList is a list of sleepers, the oldest first.
type parkedList struct {
	head, tail *sleeper
	len        int
}

func (l *parkedList) push(x *sleeper) {
	if x.prev, x.next = l.tail, nil; l.tail == nil {
		l.head = x
	} else {
		l.tail.next = x
	}
	l.tail = x
	l.len++
}

func (l *parkedList) remove(x *sleeper) {
	if x.prev == nil {
		l.head = x.next
	} else {
		x.prev.next = x.next
	}
	if x.next == nil {
		l.tail = x.prev
	} else {
		x.next.prev = x.prev
	}
	x.prev, x.next = nil, nil
	l.len--
}

// newSleeper returns a sleeper for a goal. The caller sleeps next.
func (w *waiters) newSleeper(g *goal) *sleeper {
	x := w.free
	if x == nil {
		x = &sleeper{wake: make(chan struct{}, 1)}
	} else {
		w.free, x.next = x.next, nil
	}
	if g.stop != nil {
		x.stop, g.stop.sleeper = g.stop, x
	}
	if g.what == requestCompleted {
		x.req, x.other, g.req.sleeper = g.req, g.req.sleeper, x
		return x
	}
	x.watch = g.watch
	w.watchers = append(w.watchers, x)
	w.count(x, 1)
	return x
}

// forget removes what leads from a goal to its sleeper, if it has not been removed before.
func (w *waiters) forget(x *sleeper) {
	if x.stop != nil {
		x.stop.sleeper, x.stop = nil, nil
	}
	if x.req != nil {
		for at := &x.req.sleeper; *at != nil; at = &(*at).other {
			if *at == x {
				*at = x.other
				break
			}
		}
		x.req, x.other = nil, nil
		return
	}
	if i := slices.Index(w.watchers, x); i >= 0 {
		w.watchers = slices.Delete(w.watchers, i, i+1)
		w.count(x, -1)
		x.watch = watch{}
	}
}

// count adds n to the numbers of those watchers that differ from others.
func (w *waiters) count(x *sleeper, n int) {
	switch {
	case x.watch.what.isGeneral():
		w.general += n
	case x.watch.what == wordReached:
		w.words += n
	}
}

// release puts a sleeper that does not sleep any more into the free list.
func (w *waiters) release(x *sleeper) { x.next, w.free = w.free, x }

// rouse wakes a sleeper. It checks its goal again.
func (w *waiters) rouse(x *sleeper) {
	if x.onTransport {
		w.rouseSleeper()
		return
	}
	w.forget(x)
	w.parked.remove(x)
	w.woken++
	x.wake <- struct{}{}
}

// rouseSleeper wakes the goroutine that sleeps on the transport, if there is one.
func (w *waiters) rouseSleeper() {
	if w.sleeping && !w.roused {
		w.roused = true
		w.parker.Wake()
	}
}

// rouseAll wakes all goroutines that sleep, since one of them may have reached its goal.
func (w *waiters) rouseAll() {
	for w.parked.head != nil {
		w.rouse(w.parked.head)
	}
	w.rouseSleeper()
}

// rouseFor wakes the goroutines that wait for a request, which has completed, and those whose goal
// the end of any request may reach.
func (w *waiters) rouseFor(r *Request) {
	for x := r.sleeper; x != nil; {
		next := x.other
		w.rouse(x)
		x = next
	}
	for i := len(w.watchers) - 1; i >= 0 && w.general != 0; i-- {
		if x := w.watchers[i]; x.watch.what.isGeneral() {
			w.rouse(x)
		}
	}
}

// rouseReached wakes the goroutines with goals other than the end of one request that have reached
// them.
func (w *waiters) rouseReached() {
	for i := len(w.watchers) - 1; i >= 0; i-- {
		x := w.watchers[i]
		if x.watch.what == anyCompleted { // see rouseFor
			continue
		}
		g := goal{watch: x.watch}
		if w.reached(&g) || w.failure.departed && w.isHopeless(&g) {
			w.rouse(x)
		}
	}
}

// passOn wakes a goroutine that polls in place of the caller, which does not wait any more. None is
// needed if one sleeps on the transport, which wakes it, or if one has been woken: that one polls
// if it continues to wait, and otherwise calls passOn.
func (w *waiters) passOn() {
	if w.parked.head != nil && !w.polling && !w.sleeping && w.woken == 0 {
		w.rouse(w.parked.head)
	}
}

// park sleeps while another goroutine polls, until the goal may have been reached. It checks itself
// whether the wait has ended, and then returns at once. It holds the lock from that check until the
// sleeper is in the list: what reaches the goal afterwards finds it there, and wakes it.
func (w *waiters) park(g *goal) {
	if w.failure.departed {
		w.watchIfDue(g)
	}
	if w.isOver(g) || g.any.looking() {
		return
	}
	if !g.watched {
		w.do.startWatchTimer(watchDelay)
	}
	g.countSleeper(1)
	if g.what == wordReached && w.reached(g) {
		g.countSleeper(-1)
		return
	}
	x := w.newSleeper(g)
	w.parked.push(x)
	w.mu.Unlock()
	<-x.wake
	w.mu.Lock()
	w.woken--
	w.release(x)
	g.countSleeper(-1)
}

// countSleeper adds n to the number of processes that sleep until a word changes. Before the word
// is read once more, the transport is armed, which makes the processes that share memory pass a
// barrier. sleep does both, also for the words of parked goroutines. So a process that stores the
// word either finds the count or stores the word before it is read. The partner is the store
// followed by the load of sleepers; see WaitAtLeast.
func (g *goal) countSleeper(n int64) {
	if g.sleepers != nil {
		atomic.AddUint64(g.sleepers, uint64(n))
	}
}

// sleep sleeps on the transport until something happens. It returns false if another goroutine
// polls afterwards.
func (w *waiters) sleep(g *goal) bool {
	w.inVain = false
	limit := w.watchIfDue(g)
	if w.isOver(g) || g.any.looking() {
		return true // nothing would wake this goroutine, as it did not sleep yet
	}
	if w.sleeping { // and it has been woken, since this goroutine has polled: it polls next
		w.rouseSleeper()
		w.polling = false
		w.park(g)
		return false
	}
	g.countSleeper(1)
	defer g.countSleeper(-1)
	fd, ready, err := w.do.arm()
	if err != nil {
		w.do.fail(-1, err)
		return true
	}
	// Check again after the transport has been armed: everything that happens from now on wakes
	// this goroutine.
	if ready || w.reached(g) || g.any.looking() {
		w.rouseReached() // arm may have sent messages, on which goals of others depend
		// This disarms: an armed transport leaves its background work to the goroutine that sleeps
		// on it.
		w.do.progress()
		return true
	}
	// A word that changes from now on wakes this goroutine; one that changed before is noticed
	// here.
	w.rouseReached()
	w.do.beforeSleep()
	x := w.newSleeper(g)
	x.onTransport = true
	w.polling, w.sleeping, w.roused = false, true, false
	w.mu.Unlock()
	err = w.parker.Park(fd, limit)
	w.mu.Lock()
	w.sleeping, w.roused = false, false
	w.do.disarmed()
	x.onTransport = false
	w.forget(x)
	w.release(x)
	if err != nil {
		w.do.fail(-1, err)
	}
	if w.polling {
		return false
	}
	w.startPolling(g)
	w.inVain = !w.do.progress() // disarms, as above
	w.rouseReached()
	return true
}
