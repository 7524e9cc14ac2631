package proto

import "time"

// parker is where a goroutine sleeps while nothing happens.
type parker interface {
	// park blocks until fd is readable, wake is called, or the time limit is over; 0 means no limit. It returns immediately if
	// wake was called before. fd is -1 if the transport calls wake.
	park(fd int, limit time.Duration) error
	wake()
	close() error
}

// channelParker is the parker for a transport without a descriptor.
type channelParker chan struct{}

func newChannelParker() channelParker { return make(chan struct{}, 1) }

func (p channelParker) park(_ int, limit time.Duration) error {
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

func (p channelParker) wake() {
	select {
	case p <- struct{}{}:
	default:
	}
}

func (p channelParker) close() error { return nil }

// Waker wakes an engine that sleeps on a domain without a descriptor. It must be created before the domain, whose Config needs
// its Wake method.
type Waker struct{ channel channelParker }

// NewWaker returns a waker.
func NewWaker() Waker { return Waker{newChannelParker()} }

// Wake wakes the goroutine that sleeps, or prevents the next sleep. Any goroutine may call it.
func (w Waker) Wake() { w.channel.wake() }
