package liveness

// A connected peer is visited once in each keepalive interval, see Ring. The device supervises
// requests that are in flight and have a completion: it completes them, or reports that the device
// of the peer does not answer. So only a peer without such a request is probed, once it was idle
// for long, by a request of no bytes. The device of the peer acknowledges it even if the process
// computes or is stopped. Requests without a completion are followed by a probe after one interval,
// since their slots are freed only then.

// State is what the keepalive knows about a connected peer.
type State struct {
	Alive bool  // a message or an acknowledgement has arrived since the last visit
	Probe bool  // the next visit probes the peer: a device has reported a change of its port
	Age   int16 // visits since the connection was established, at most math.MaxInt16
	// Stuck: visits in a row between which the oldest request in flight of a queue pair was the
	// same. It is the largest number of all queue pairs.
	Stuck int32
	// Idle: visits in a row without a sign of life, and without a request that would give one.
	Idle int32
	// Missed: visits in a row without a sign of life while a request with a completion was in
	// flight. There is one visit in a keepalive interval, so Silence.Intervals counts the same unit,
	// and continues from Missed when the connection breaks.
	Missed int32
}

// Verdict is what follows from a visit.
type Verdict uint8

// The verdicts.
const (
	Wait  Verdict = iota // the peer may still answer
	Break                // the connection is to be made again, since long packets or many requests may be lost
	Down                 // the peer is down
)

// Visit begins a visit. The queue pairs of the peer must be looked at after it, see Look.
func (k *State) Visit() { k.Age, k.Stuck = CountUp(k.Age), 0 }

// Look looks at a queue pair. It reports whether its oldest request in flight is the same as at the
// last visit.
func (k *State) Look(p *Progress, oldest uint32, supervised bool) (same bool) {
	same = p.oldest == oldest
	if p.Stuck++; !supervised || !same {
		p.Stuck = 0
	}
	p.oldest = oldest
	k.Stuck = max(k.Stuck, p.Stuck)
	return same
}

// Progress is what the visits of a peer remember of one of its queue pairs.
type Progress struct {
	oldest uint32 // number of the oldest request in flight
	// Stuck: visits in a row at whose ends a request with a completion was in flight, and the
	// oldest request was the same.
	Stuck int32
}

// IsStuck reports whether a request was not carried out for the time of a heartbeat. On the queue
// pair for messages that only counts if the peer gives signs of life: Missed finds others.
func (k *State) IsStuck(p *Progress, l *Limits, messages bool) bool {
	return int(p.Stuck) >= l.MaxMissed && (k.Alive || !messages)
}

// Answered reports whether the visit ends here: the peer has given a sign of life since the last
// one, and need not be probed.
func (k *State) Answered() bool {
	if !k.Alive {
		return false
	}
	k.Alive, k.Idle, k.Missed = false, 0, 0
	return !k.Probe
}

// ProbeDue reports whether a peer is to be probed for which no request with a completion is in
// flight. inFlight says that there are others: they have been carried out, and only have no
// completion of their own.
func (k *State) ProbeDue(inFlight bool, maxIdle int) bool {
	k.Idle++
	return k.Probe || inFlight || int(k.Idle) >= maxIdle
}

// Miss records that the peer has given no sign of life while a request with a completion was in
// flight. queued says that this request is long, or behind many.
func (k *State) Miss(l *Limits, queued bool) Verdict {
	k.Missed++
	switch {
	case queued && int(k.Missed) >= l.MaxQueued:
		return Break
	case !queued && int(k.Missed) >= l.MaxMissed:
		return Down
	}
	return Wait
}

// End records that the connection ends. It reports whether it has worked for a heartbeat. The time
// in which a request was not carried out does not count.
func (k *State) End(l *Limits) (worked bool) {
	worked = int(k.Age)-int(k.Stuck) > l.MaxMissed
	k.Age = 0
	return worked
}
