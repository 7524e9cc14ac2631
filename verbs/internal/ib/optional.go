package ib

// What follows is found by type assertion when an object is made, once. A provider offers it where its devices allow it.

// Peeker is a CQ that can be seen to be empty without any lock.
type Peeker interface {
	// Indices are equal exactly while the queue is empty. They may be read as long as the CQ is reachable, even during and
	// after Close and Resize; what they say then means nothing.
	Indices() *Indices
}

// Indices are the two ends of a queue, as far apart as rxe has them: an empty poll looks at both, and one address for both
// saves it a third of its time.
type Indices struct {
	Producer uint32
	_        [31]uint32
	Consumer uint32
}

// EventReader is a Context or a Channel whose events must be taken through it, because its library counts them.
type EventReader interface {
	// ReadEvents does what read(2) on the descriptor would: it returns whole events, or the error EAGAIN.
	ReadEvents(p []byte) (int, error)
}
