package closing

import "github.com/ibrun/ibrun/fabric/rdma/internal/posting"

// Failure is a connection that is to be closed, once everything that has arrived over it was
// received. E identifies the peer for the owner.
type Failure[E comparable] struct {
	Of  E
	Err error
	// Down: the peer is lost for good. Otherwise the connection is made again.
	Down bool

	first *posting.QueuePair // of the connection, nil if there was none
}

// Fail records a failure. first is the first queue pair of the connection that has failed, nil if
// there is none.
func (l *List[E]) Fail(of E, first *posting.QueuePair, err error, down bool) {
	l.failures = append(l.failures, Failure[E]{of, err, down, first})
}

// Failures returns how many failures were recorded and not handled.
func (l *List[E]) Failures() int { return len(l.failures) - l.handled }

// NextFailure returns the oldest failure that was not handled. ok is false if there is none.
func (l *List[E]) NextFailure() (f Failure[E], ok bool) {
	if l.Failures() == 0 {
		l.failures, l.handled = nil, 0
		return f, false
	}
	f = l.failures[l.handled]
	l.handled++
	return f, true
}

// IsStale reports whether the connection that has failed was closed already: several failures of it
// were recorded. first is the first queue pair of the connection that the peer has now. A failure
// of a peer that is lost, or whose endpoint has ended, always counts.
func (f *Failure[E]) IsStale(first *posting.QueuePair, ended bool) bool {
	return !f.Down && !ended && (f.first == nil || f.first != first)
}
