package tcp

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/internal/tunables"
)

// Transport is TCP between the peers of a job. See the package comment.
type Transport struct {
	// Key is a secret shared by the peers of this job only. They authenticate their connections with it.
	Key [32]byte
	// Interfaces chooses the network interfaces on which this peer listens, as [ParseInterfaces] describes. Empty means all that
	// are up, without bridges of container engines and link-local addresses; loopback only if there is no other.
	Interfaces []string
	// Timeout is how long a peer may be unreachable, while it is being connected to and later. 0 means 15 s, the
	// default of IBRUN_HEARTBEAT. Kernels detect idle peers that have vanished in steps of a second.
	Timeout time.Duration
	// Linger is how long Close may wait for peers to receive what was sent. 0 means 2 s.
	Linger time.Duration
	// Eager is the largest payload in bytes that is sent as one message; longer payloads are read by the receiver. 0 means the
	// most that a message holds, which is also the maximum.
	Eager int
	// Push is the number of bytes, at most, that are sent along with the message that announces them. A receiver that expects
	// them does not have to ask for them; if the block is longer, it requests the rest while they arrive. A receiver that does
	// not expect them drops them and asks later. 0 means [PushBytes], which is also the maximum. If Push is not more than Eager,
	// nothing is pushed.
	Push int

	// NoChecksum omits the checksums of frames, which detect bytes that were changed on the way between two machines. It must be the
	// same at all peers.
	NoChecksum bool
	// Encrypt encrypts everything by TLS 1.3, and protects it against changes by others. It must be the same at all peers.
	Encrypt bool

	// Report is called with what the user should know: one line for each of Interfaces that this host does not have. It may be nil.
	Report func(text string)

	// The rest is set by tests only. socketBuffer is the size in bytes of both buffers of each
	// socket, SO_SNDBUF and SO_RCVBUF: with small ones a test fills them soon. 0 leaves both to the
	// kernel, but for the send buffer of a connection within this machine, see localSendBuffer.
	socketBuffer int
	checkLocal   bool // connections within this machine have checksums as well
}

// Caps returns the limits of the domains that the transport opens.
func (t *Transport) Caps() fabric.Caps {
	return fabric.Caps{Transport: transports.TCP.String(), MaxSend: maxSend, Eager: t.eager(), Read: true}
}

// PushBytes is the largest push. The kernel holds that much for a receiver that does not read, so no more than that is sent in
// vain. Messages behind a push wait for it. Within one machine, messages of 2 and 4 MiB took 5 to 10 % less time than with half
// of it.
const PushBytes = 2 << 20

// MaxPush returns how many bytes are pushed at most, with the default filled in; 0 if nothing is.
func (t *Transport) MaxPush() int {
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

// Name returns "tcp".
func (t *Transport) Name() string { return transports.TCP.String() }

// Probe returns an error if this system lacks something that TCP needs, or if the rules choose no interface.
func (t *Transport) Probe() error {
	if err := probe(); err != nil {
		return err
	}
	_, _, err := t.interfaces()
	return err
}

// Open listens on the chosen interfaces. Poll accepts the connections of peers.
func (t *Transport) Open(_ context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	if cfg.Self < 0 || cfg.Self >= cfg.Size {
		return nil, fmt.Errorf("tcp: open: peer %d is out of range: there are %d peers", cfg.Self, cfg.Size)
	}
	if t.Eager < 0 || t.Eager > maxEager {
		return nil, fmt.Errorf("tcp: open: Eager is %d; it must be 0 to %d", t.Eager, maxEager)
	}
	if t.Push < 0 || t.Push > PushBytes {
		return nil, fmt.Errorf("tcp: open: Push is %d; it must be 0 to %d", t.Push, PushBytes)
	}
	if err := probe(); err != nil {
		return nil, err
	}
	chosen, unused, err := t.interfaces()
	if err != nil {
		return nil, err
	}
	d, err := open(t, cfg, chosen)
	if err == nil && t.Report != nil {
		for _, line := range unused {
			t.Report(line)
		}
	}
	return d, err
}

// options returns the settings that the peers must have, too.
func (t *Transport) options() (o options) {
	if !t.NoChecksum && !t.Encrypt { // TLS finds out about changed bytes itself
		o |= optionChecksum
	}
	if t.Encrypt {
		o |= optionEncrypt
	}
	return o
}

func (t *Transport) timeout() time.Duration {
	if t.Timeout > 0 {
		return t.Timeout
	}
	return tunables.DefaultHeartbeat
}

func (t *Transport) linger() time.Duration {
	if t.Linger > 0 {
		return t.Linger
	}
	return 2 * time.Second
}
