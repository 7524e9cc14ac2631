package liveness

import "time"

// Timers are the timers of the peers that are being connected to, each of which has at most one.
// They are a heap, so that a tick looks only at peers whose timer has expired.
type Timers[E any] struct {
	list []timerOf[E] // list[i] does not expire after list[2*i+1] and list[2*i+2]
}

// timerOf is a timer, when it expires, and whose it is.
type timerOf[E any] struct {
	at time.Duration
	*Timer
	of E
}

// Timer is the timer of a peer. The zero Timer is in no Timers.
type Timer struct {
	position int32 // index in Timers, plus 1; 0: in none
}

// IsSet reports whether the timer is in Timers.
func (t *Timer) IsSet() bool { return t.position > 0 }

// Len returns how many timers there are.
func (x *Timers[E]) Len() int { return len(x.list) }

// Of returns whose timer number i is, from 0 to Len minus 1. Each call of another method may change
// the numbers. Timer 0 is the one that expires first.
func (x *Timers[E]) Of(i int) E { return x.list[i].of }

// Next returns when the timer expires that does so first. There must be one.
func (x *Timers[E]) Next() time.Duration { return x.list[0].at }

// Set makes the timer of a peer expire at a time, by the clock of the domain. It adds the timer if
// it is in no Timers.
func (x *Timers[E]) Set(t *Timer, of E, at time.Duration) {
	if t.position == 0 {
		x.list = append(x.list, timerOf[E]{})
		t.position = int32(len(x.list))
	}
	i := int(t.position) - 1
	x.list[i] = timerOf[E]{at, t, of}
	x.fix(i)
}

// Remove removes a timer. It does nothing if the timer is in no Timers.
func (x *Timers[E]) Remove(t *Timer) {
	if t.position == 0 {
		return
	}
	i, last := int(t.position)-1, len(x.list)-1
	x.put(i, x.list[last])
	x.list[last] = timerOf[E]{} // releases its memory
	x.list, t.position = x.list[:last], 0
	if i < last {
		x.fix(i)
	}
}

// put stores a timer at an index.
func (x *Timers[E]) put(i int, t timerOf[E]) {
	x.list[i] = t
	t.position = int32(i + 1)
}

// fix moves the timer at an index to where it belongs. All others are where they belong.
func (x *Timers[E]) fix(i int) {
	t := x.list[i]
	for i > 0 && t.at < x.list[(i-1)/2].at {
		x.put(i, x.list[(i-1)/2])
		i = (i - 1) / 2
	}
	for {
		next := 2*i + 1
		if next+1 < len(x.list) && x.list[next+1].at < x.list[next].at {
			next++
		}
		if next >= len(x.list) || t.at <= x.list[next].at {
			break
		}
		x.put(i, x.list[next])
		i = next
	}
	x.put(i, t)
}
