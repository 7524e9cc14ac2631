package tcp

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/transports"
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
	// Eager is the largest payload in bytes that is sent as one message; what is longer is read. 0 means as much as a message
	// holds, which is also the most.
	Eager int
	// Push is how many bytes at most are sent along with their announcement. A receiver that expects them need not ask for them,
	// and asks for the rest of something longer while they come; one that does not drops them and asks later. 0 means
	// [PushBytes], which is also the most. If it is not more than Eager, nothing is sent along.
	Push int

	window int // bytes of the kernel's buffers of a connection; 0: those that suit the way
}

// Caps returns the limits of the domains that the transport opens.
func (t *Transport) Caps() fabric.Caps {
	return fabric.Caps{Transport: transports.TCP.String(), MaxSend: maxSend, Eager: t.eager(), Read: true}
}

// PushBytes is the most that the kernel holds for a receiver that does not read, so that no more than that is sent in vain.
// Messages behind wait for it. Within a machine 2 and 4 MiB took 5 to 10 % less time than with half of it.
const PushBytes = 2 << 20

// Pushes is how much is sent along with an announcement, with what was left open filled in; 0 if nothing is.
func (t *Transport) Pushes() int {
	if n := cmp.Or(t.Push, PushBytes); n > t.eager() {
		return n
	}
	return 0
}

func (t *Transport) eager() int {
	if t.Eager == 0 {
		return maxEager
	}
	return t.Eager
}

// Name is "tcp".
func (t *Transport) Name() string { return transports.TCP.String() }

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
	if t.Eager < 0 || t.Eager > maxEager {
		return nil, fmt.Errorf("tcp: Eager is %d, and may be 0 to %d", t.Eager, maxEager)
	}
	if t.Push < 0 || t.Push > PushBytes {
		return nil, fmt.Errorf("tcp: Push is %d, and may be 0 to %d", t.Push, PushBytes)
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
