// Package auto chooses the transport between the processes of a job: the one place that knows them all.
//
//	d, err := auto.Open(ctx, &fabric.Config{Self: 3, Size: 8}, auto.Node{Local: local, Key: secret, Tracer: agent})
//
// A process that is alone talks to itself in its own memory (fabric/mem). Processes of one node share memory (fabric/shm).
// Between nodes bytes go over RDMA (fabric/rdma) where both ends have a device, and over TCP (fabric/tcp) elsewhere. Where peers
// are reached in different ways the domain is one made of several: its address says which transports the process has, and a
// pair takes the first that both have.
package auto

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/fabric/tcp"
)

// Node is what the choice depends on: who is where, and what may be used.
type Node struct {
	// Local are the peers on this node, ascending, Self included.
	Local []int
	// Key is a secret of this job.
	Key [32]byte
	// Tracer is the process whose descendants the local peers are, or 0.
	Tracer int
	// Transports are the names of those that may be used, the same at every process; empty means all. See
	// [ParseTransports].
	Transports []string
	// Interfaces chooses network interfaces for TCP, as tcp.ParseInterfaces describes.
	Interfaces []string
	// Devices are rdma.Transport.Near: the RDMA devices to take first.
	Devices []string
	// Thresholds are lengths that decide how messages travel. What they leave open of RDMA's, package rdma reads from the
	// environment.
	Thresholds Thresholds
	// Report is told in one line why a device that is there is not used; it may be nil.
	Report func(string)
}

// names are those of the transports between processes, the best first.
var names = []string{"shm", "rdma", "tcp"}

// ErrTransport says that a list names a transport that does not exist.
var ErrTransport = errors.New("no such transport")

// ParseTransports takes apart a list such as "shm,tcp". Empty, or auto, means all.
func ParseTransports(list string) ([]string, error) {
	if list == "" || list == "auto" {
		return nil, nil
	}
	ts := strings.Split(list, ",")
	for _, t := range ts {
		if !slices.Contains(names, t) {
			return nil, fmt.Errorf("%w: %q; there are %s", ErrTransport, t, strings.Join(names, ", "))
		}
	}
	return ts, nil
}

// FromEnv sets what the user's environment says about the choice: IBRUN_TRANSPORT lists transports as [ParseTransports] takes
// them, IBRUN_TCP_INTERFACES network interfaces, and IBRUN_SHM_STREAM, IBRUN_TCP_EAGER and IBRUN_TCP_PUSH are lengths in bytes.
// It should be the same at every process.
func (n *Node) FromEnv(getenv func(string) string) (err error) {
	if n.Transports, err = ParseTransports(getenv("IBRUN_TRANSPORT")); err != nil {
		return fmt.Errorf("IBRUN_TRANSPORT: %w", err)
	}
	if n.Interfaces, err = tcp.ParseInterfaces(getenv("IBRUN_TCP_INTERFACES")); err != nil {
		return fmt.Errorf("IBRUN_TCP_INTERFACES: %w", err)
	}
	if n.Thresholds.ShmStream, err = length(getenv, shmStream, math.MaxInt32); err != nil {
		return err
	}
	if n.Thresholds.TCPEager, err = length(getenv, tcpEager, new(tcp.Transport).Caps().Eager); err != nil {
		return err
	}
	n.Thresholds.TCPPush, err = length(getenv, tcpPush, tcp.PushBytes)
	return err
}

// The variables that set lengths.
const (
	shmStream = "IBRUN_SHM_STREAM"
	tcpEager  = "IBRUN_TCP_EAGER"
	tcpPush   = "IBRUN_TCP_PUSH"
)

// length is a variable that is a number of bytes, 0 if it is not set.
func length(getenv func(string) string, variable string, most int) (int, error) {
	text := getenv(variable)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%w: %s=%q; it may be 1 to %d", ErrLength, variable, text, most)
	}
	return n, nil
}

// ErrLength says that a variable or threshold is not a number of bytes that makes sense.
var ErrLength = errors.New("no length in bytes")

func (n Node) may(transport string) bool {
	return len(n.Transports) == 0 || slices.Contains(n.Transports, transport)
}

// Open opens the best domain that reaches every peer. Its address is nil if no peer needs one. Errors say what is missing;
// fabric.ErrNotSupported is among them where no transport reaches all.
func Open(ctx context.Context, cfg *fabric.Config, n Node) (fabric.Domain, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	if cfg.Size == 1 {
		return mem.NewHub(1).Transport().Open(ctx, cfg)
	}
	return n.open(ctx, cfg)
}

// Chooser is what a domain that [Open] returns offers besides where peers are reached in different ways. Elsewhere all are
// reached by shared memory, or there are none.
type Chooser interface {
	// Choice names the transport that Connect takes to a peer with that address.
	Choice(peer int, addr []byte) (string, error)
}
