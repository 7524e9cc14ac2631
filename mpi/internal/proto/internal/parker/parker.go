package parker

import "time"

// Parker is where a goroutine sleeps while nothing happens.
type Parker interface {
	// Park blocks until fd is readable, Wake is called, or the time limit is over; 0 means no
	// limit. It returns immediately if Wake was called before. fd is -1 if the transport calls
	// Wake.
	Park(fd int, limit time.Duration) error
	// Wake wakes the goroutine in Park, or prevents the next Park from blocking. Any goroutine may
	// call it.
	Wake()
	// Close releases what the Parker holds. No goroutine may be in Park.
	Close() error
}

// Channel is the Parker for a transport without a descriptor.
type Channel chan struct{}

// NewChannel returns a Channel.
func NewChannel() Channel { return make(chan struct{}, 1) }

// Park blocks until Wake is called, or the time limit is over. It ignores the descriptor.
func (p Channel) Park(_ int, limit time.Duration) error {
	if limit == 0 {
		<-p
		return nil
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p:
	case <-timer.C:
	}
	return nil
}

// Wake is that of Parker.
func (p Channel) Wake() {
	select {
	case p <- struct{}{}:
	default:
	}
}

// Close does nothing.
func (p Channel) Close() error { return nil }
