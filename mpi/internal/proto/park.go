package proto

// parker is where a goroutine sleeps while nothing happens.
type parker interface {
	// park sleeps until fd is readable or kick was called, also if it was called before. fd is -1 if the transport
	// kicks.
	park(fd int) error
	kick()
	close() error
}

// channelParker sleeps where the transport has no descriptor.
type channelParker chan struct{}

func newChannelParker() channelParker { return make(chan struct{}, 1) }

func (p channelParker) park(int) error {
	<-p
	return nil
}

func (p channelParker) kick() {
	select {
	case p <- struct{}{}:
	default:
	}
}

func (p channelParker) close() error { return nil }

// Waker is where an engine sleeps on a domain without a descriptor. It is made before the domain, whose Config wants
// its Wake.
type Waker struct{ channel channelParker }

// NewWaker makes a bed.
func NewWaker() Waker { return Waker{newChannelParker()} }

// Wake ends the sleep of whoever sleeps, or the next one. It may be called from anywhere.
func (b Waker) Wake() { b.channel.kick() }
