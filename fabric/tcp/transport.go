package tcp

import (
	"context"
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric"
)

// Transport is TCP between the peers of a job. See the package comment.
type Transport struct {
	// Key is known to the peers of this job and to nobody else.
	Key [32]byte
	// Interfaces chooses the network interfaces that peers may call, as [ParseInterfaces] describes. Empty means all that are up,
	// without bridges of container engines and link-local addresses; loopback only where there is nothing else.
	Interfaces []string
	// Timeout is how long a peer may be out of reach: while it is called, and later. 0 means 15 s. Kernels look for idle
	// peers that have vanished in steps of a second.
	Timeout time.Duration
	// Linger is how long Close may wait for peers to take what was sent. 0 means 2 s.
	Linger time.Duration
	// Eager is the largest payload in bytes that is sent as one message. 0 means as much as a message holds, which is also the
	// most.
	Eager int
	// Stream is the largest payload in bytes that goes in several messages; what is longer than both is read. 0 means
	// [StreamBytes], or none if Eager is set.
	Stream int

	window int // bytes of the kernel's buffers of a connection; 0: those that suit the way
}

// Caps returns the limits of the domains that the transport opens.
func (t *Transport) Caps() fabric.Caps {
	return fabric.Caps{Transport: "tcp", MaxSend: maxSend, Eager: t.eager(), Read: true}
}

// StreamBytes is the payload up to which a copy at the receiver, made while the next part is under way, costs no more than an
// offer and the answer to it, within a machine.
const StreamBytes = 256 << 10

// Streams is what goes in several messages, with what was left open filled in.
func (t *Transport) Streams() int {
	if t.Stream == 0 && t.Eager == 0 {
		return StreamBytes
	}
	return t.Stream
}

func (t *Transport) eager() int {
	if t.Eager == 0 {
		return maxSend
	}
	return t.Eager
}

// Name is "tcp".
func (t *Transport) Name() string { return "tcp" }

// Probe reports whether this system has what it takes, and an interface that the rules choose.
func (t *Transport) Probe() error {
	if err := probe(); err != nil {
		return err
	}
	_, err := t.interfaces()
	return err
}

// Open listens on the chosen interfaces. Peers that call are answered by Poll.
func (t *Transport) Open(_ context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	if cfg.Self < 0 || cfg.Self >= cfg.Size {
		return nil, fmt.Errorf("tcp: peer %d of %d", cfg.Self, cfg.Size)
	}
	if t.Eager < 0 || t.Eager > maxSend {
		return nil, fmt.Errorf("tcp: Eager is %d, and may be 0 to %d", t.Eager, maxSend)
	}
	if t.Stream < 0 {
		return nil, fmt.Errorf("tcp: Stream is %d, and must not be negative", t.Stream)
	}
	if err := probe(); err != nil {
		return nil, err
	}
	chosen, err := t.interfaces()
	if err != nil {
		return nil, err
	}
	return open(t, cfg, chosen)
}

func (t *Transport) timeout() time.Duration {
	if t.Timeout > 0 {
		return t.Timeout
	}
	return 15 * time.Second
}

func (t *Transport) linger() time.Duration {
	if t.Linger > 0 {
		return t.Linger
	}
	return 2 * time.Second
}
