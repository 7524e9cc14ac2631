package proto

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// failures records which processes have failed or finalized.
type failures struct {
	err        error // nil until the engine has failed
	finalizing bool  // any process may finalize now
	// departed says that some process has finalized or left a context: operations that wait must
	// look which; see departures.
	departed bool
	// finalized is the number of reports that a peer has finalized or left a context: its own, and
	// those of the launcher.
	finalized int
	// closed has a bit for each process that has finalized without a peer in links.peers. In a
	// large job these are most of the processes, and the bit saves a peer for each of them. newPeer
	// reads the bit. nil: there are none.
	closed []uint64
	// needed is Config.Needed; nil: always true.
	needed func(n int32, closed bool) bool
}

// failureError is the failure of a process. It wraps ErrFailed and the cause.
type failureError struct {
	peer  int32 // -1: this process, because its transport has failed
	cause error
}

func (f *failureError) Error() string {
	if f.peer < 0 {
		return fmt.Sprintf("the transport of this process has failed: %v", f.cause)
	}
	return fmt.Sprintf("process %d was lost: %v", f.peer, f.cause)
}

// Unwrap returns both errors that this one wraps.
func (f *failureError) Unwrap() []error { return []error{ErrFailed, f.cause} }

// setClosed sets the bit of a process; n is the number of processes.
func (f *failures) setClosed(process int32, n int) {
	if f.closed == nil {
		f.closed = make([]uint64, (n+63)/64)
	}
	f.closed[process/64] |= 1 << (process % 64)
}

// hasClosed reports whether the bit of a process is set.
func (f *failures) hasClosed(process int32) bool {
	return f.closed != nil && f.closed[process/64]>>(process%64)&1 != 0
}

// mayLeave reports whether the loss of a process is not a failure.
func (f *failures) mayLeave(n int32, err error) bool {
	switch {
	case errors.Is(err, fabric.ErrPeerClosed):
		return f.finalizing || f.needed != nil && !f.needed(n, true)
	case errors.Is(err, fabric.ErrPeerDown) && !errors.Is(err, fabric.ErrCorrupt):
		return f.needed != nil && !f.needed(n, false)
	}
	return false
}

// gone returns the error of operations with process n if it has finalized, as far as this process
// or the launcher knows, or nil.
func (p *peer) gone(n int32) error {
	if p.finalized == nil && p.announced {
		return &failureError{n, errAnnounced}
	}
	return p.finalized
}

var errAnnounced = fmt.Errorf("%w, as the launcher reports", fabric.ErrPeerClosed)
