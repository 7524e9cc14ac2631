// Package auto chooses the transport between the processes of a job. It is the only package that knows all transports.
//
//	d, err := auto.Open(ctx, &fabric.Config{Self: 3, Size: 8}, auto.Node{Local: local, Key: secret, Tracer: agent})
//
// A process that is alone sends to itself in its own memory (fabric/mem). Processes of one node use shared memory
// (fabric/shm). Between nodes bytes travel over RDMA (fabric/rdma) if both ends have a device that reaches the other, and over
// TCP (fabric/tcp) otherwise. If not all peers are reached by the same transport, the domain combines several: its address lists
// the transports of the process, and two processes use the first that both have.
//
// A process has an RDMA domain in each subnet that its node is connected to. Two processes use the one that both prefer; each
// finds it from the two addresses alone. If no pair of their devices is of one subnet, they use TCP.
package auto

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/fabric/rdma"
	"github.com/ibrun/ibrun/fabric/shm"
	"github.com/ibrun/ibrun/fabric/tcp"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/internal/tunables"
)

// Node is what the choice depends on: which peers are on this node, and what may be used.
type Node struct {
	// Local lists the peers on this node in ascending order, Self included.
	Local []int
	// Key is a secret of this job.
	Key [32]byte
	// Address returns the address that a peer passes to others, or nil if it is not known. Poll, Arm and Close of the domain call
	// it, if a peer that has connected to this process is to be reached over TCP, and this process has not connected to the peer.
	// Then the peer may be lost if Address is nil.
	Address func(peer int) []byte
	// Tracer is the process that is an ancestor of all local peers, or 0.
	Tracer int
	// Sockets is shm.Transport.Sockets: the launcher's sockets between the local peers, or nil.
	Sockets shm.Sockets
	// SharedCores is shm.Transport.SharedCores: there may be fewer cores than local peers.
	SharedCores bool
	// Stores is shm.Transport.Stores.
	Stores shm.Stores
	// Transports lists the names of the transports that may be used, the same at every process; empty means all. See
	// [ParseTransports].
	Transports []string
	// Interfaces chooses network interfaces for TCP, as tcp.ParseInterfaces describes.
	Interfaces []string
	// Devices is rdma.Transport.Near: the preferred RDMA devices.
	Devices []string
	// Encrypt encrypts what processes on different nodes send each other, and what TCP sends within a node. RDMA cannot, so it is
	// not used. It must be the same at every process.
	Encrypt bool
	// NoChecksum omits the checksums of messages over TCP between machines. It must be the same at every process.
	NoChecksum bool
	// Heartbeat is how long a peer on another node may be silent before it is lost. 0: the default of the transport, which package
	// rdma reads from the environment.
	Heartbeat time.Duration
	// Thresholds are lengths that decide how messages travel. Package rdma reads those of RDMA that are 0 from the environment.
	Thresholds Thresholds
	// Report is called with one line that says why an existing device is not used, or which of Interfaces this host does not have.
	// It may be nil.
	Report func(string)
	// ReportPeer is called with one line that says why TCP, or another RDMA subnet, is used to a peer although both processes have
	// opened RDMA devices of a subnet. One process of a pair calls it, once for each subnet. If the addresses of the devices show
	// the reason, only the first process of a node does. It may be nil.
	ReportPeer func(peer int, text string)

	network rdma.Network // replaces the devices of this machine in tests
}

// ErrTransport is the error for a list with a transport that does not exist.
var ErrTransport = transports.ErrUnknown

// ParseTransports parses a list such as "shm,tcp". An empty list, or auto, means all: the result is nil.
func ParseTransports(list string) ([]string, error) { return transports.ParseList(list) }

// FromEnv sets n from the user's environment, which should be the same at every process: IBRUN_TRANSPORT is a list for
// [ParseTransports], IBRUN_TCP_INTERFACES lists network interfaces, IBRUN_ENCRYPT=1 demands encryption, IBRUN_CHECKSUM=off
// omits checksums, IBRUN_HEARTBEAT is a duration, IBRUN_SHM_STORES names a kind of stores, and the variables of shared memory and
// TCP that are named with the fields of [Thresholds] are lengths in bytes.
func (n *Node) FromEnv(getenv func(string) string) (err error) {
	if n.Transports, err = ParseTransports(getenv(tunables.Transports)); err != nil {
		return fmt.Errorf("%s: %w", tunables.Transports, err)
	}
	if n.Interfaces, err = tcp.ParseInterfaces(getenv(tunables.TCPInterfaces)); err != nil {
		return fmt.Errorf("%s: %w", tunables.TCPInterfaces, err)
	}
	if n.Encrypt, err = tunables.EncryptFromEnv(getenv); err != nil {
		return err
	}
	checksum, err := tunables.ChecksumFromEnv(getenv)
	if err != nil {
		return err
	}
	n.NoChecksum = !checksum
	if n.Heartbeat, err = tunables.HeartbeatFromEnv(getenv); err != nil {
		return err
	}
	stores, err := tunables.StoresFromEnv(getenv)
	if err != nil {
		return err
	}
	n.Stores = shm.Stores(stores)
	for _, f := range n.Thresholds.fields() {
		if f.Transport == transports.RDMA { // package rdma reads them, with its other settings
			continue
		}
		if *f.value, err = f.FromEnv(getenv); err != nil {
			return err
		}
	}
	return nil
}

// ErrLength is the error for a variable or threshold that is not a valid number of bytes.
var ErrLength = tunables.ErrInvalid

// errNotEncrypted says why RDMA is not used in a job that demands encryption.
var errNotEncrypted = fmt.Errorf("%w: RDMA does not encrypt, and --encrypt (%s) demands it: allow tcp, "+
	"or do without encryption in a network that no one else can reach", fabric.ErrNotSupported, tunables.Encrypt)

// allows reports whether t may be used.
func (n Node) allows(t transports.Transport) bool {
	return len(n.Transports) == 0 || slices.Contains(n.Transports, t.String())
}

// Open opens the best domain that reaches every peer. Its address is nil if no peer needs one. The error says what is missing;
// it is fabric.ErrNotSupported if no transport reaches all peers.
func Open(ctx context.Context, cfg *fabric.Config, n Node) (fabric.Domain, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	if cfg.Size == 1 {
		return mem.NewHub(1).Transport().Open(ctx, cfg)
	}
	if report := n.Report; report != nil {
		n.Report = func(text string) { report(oneLine(text)) }
	}
	if report := n.ReportPeer; report != nil {
		n.ReportPeer = func(peer int, text string) { report(peer, oneLine(text)) }
	}
	return n.open(ctx, cfg)
}

// oneLine makes one line of the text of several errors.
func oneLine(text string) string { return strings.ReplaceAll(text, "\n", "; ") }

// Chooser is an optional interface of the domains that [Open] returns: a domain has it if peers are reached by different
// transports. A domain without it reaches all peers through shared memory, or has no peers.
type Chooser interface {
	// Choice returns the name of the transport that Connect uses to a peer with that address.
	Choice(peer int, addr []byte) (string, error)
}
