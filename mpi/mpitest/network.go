package mpitest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/auto"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
)

// network connects the ranks of a world.
type network interface {
	transport(rank int) fabric.Transport
	// address returns the address of a rank, after all have opened their transports.
	address(rank int) []byte
	// nodeName returns the name of a rank's node.
	nodeName(rank int) string
	// fail notifies the other ranks that a rank has failed.
	fail(rank int, err error)
}

// newNetwork returns the network that the environment asks for; s is nil if all ranks are in this program.
func newNetwork(n int, t bootstrap.Thresholds, s *member) (network, error) {
	if s == nil && os.Getenv("IBRUN_TRANSPORT") == "" || n == 1 {
		return memNetwork{mem.NewHub(n)}, nil
	}
	node := auto.Node{}
	if err := node.FromEnv(os.Getenv); err != nil {
		return nil, err
	}
	node.Set(t)
	nw := &fabricNetwork{
		node: node, member: s, addrs: make([][]byte, n), domains: make([]fabric.Domain, n), exchanged: make(chan struct{}),
	}
	rand.Read(nw.node.Key[:])
	if s != nil {
		nw.node.Key = s.key()
	}
	for rank := range n {
		if s.hosts(rank) {
			nw.missing++
		}
	}
	return nw, nil
}

// memNetwork connects ranks through memory of the process.
type memNetwork struct{ *mem.Hub }

func (h memNetwork) transport(int) fabric.Transport { return h.Transport() }
func (h memNetwork) address(int) []byte             { return nil }
func (h memNetwork) nodeName(int) string            { return bootstrap.HostName() }
func (h memNetwork) fail(rank int, err error)       { h.Fail(rank, err) }

// fabricNetwork connects ranks by the transports between processes and nodes.
type fabricNetwork struct {
	node      auto.Node
	member    *member       // nil if all ranks are in this program
	exchanged chan struct{} // closed when all addresses are known, or some never will be

	mu      sync.Mutex
	addrs   [][]byte
	domains []fabric.Domain
	missing int   // number of this program's ranks without an address
	failed  error // why some ranks could not open their transports
}

func (nw *fabricNetwork) transport(rank int) fabric.Transport { return rankTransport{nw, rank} }

// nodeName returns one name for every two ranks, or for all ranks of a program.
func (nw *fabricNetwork) nodeName(rank int) string {
	if nw.member != nil {
		return fmt.Sprintf("program-%d", rank%nw.member.programs)
	}
	return fmt.Sprintf("%s-%d", bootstrap.HostName(), rank/2)
}

// address must be called after all ranks have opened their transports.
func (nw *fabricNetwork) address(rank int) []byte { return nw.addrs[rank] }

// fail closes the domain of the failed rank, in its own goroutine. Connected ranks notice the lost connections.
func (nw *fabricNetwork) fail(rank int, err error) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	if d := nw.domains[rank]; d != nil {
		_ = d.Close() // the rank has failed already; a further error does not matter
	} else if nw.failed == nil && nw.missing > 0 {
		nw.failed = fmt.Errorf("%w: rank %d could not open its transport", fabric.ErrPeerDown, rank)
		nw.exchangeAddrs(err)
	}
}

// rankTransport is the transport of one rank.
type rankTransport struct {
	nw   *fabricNetwork
	rank int
}

func (p rankTransport) Name() string { return "auto" }
func (p rankTransport) Probe() error { return nil }

// Open returns when every rank has opened, so that all addresses are known.
func (p rankTransport) Open(ctx context.Context, c *fabric.Config) (fabric.Domain, error) {
	nw := p.nw
	node := nw.node
	for r := range c.Size {
		if nw.member == nil && r/2 == p.rank/2 || nw.member != nil && nw.member.hosts(r) {
			node.Local = append(node.Local, r)
		}
	}
	d, err := auto.Open(ctx, c, node)
	if err != nil {
		return nil, err
	}
	nw.publish(p.rank, d)
	<-nw.exchanged
	if nw.failed != nil {
		return nil, errors.Join(nw.failed, d.Close())
	}
	return d, nil
}

func (nw *fabricNetwork) publish(rank int, d fabric.Domain) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.addrs[rank], nw.domains[rank] = d.Addr(), d
	if nw.missing--; nw.missing == 0 && nw.failed == nil {
		nw.exchangeAddrs(nil)
	}
}

// exchangeAddrs sends the addresses of this program's ranks to the other programs, or the error of one that failed,
// and receives theirs.
func (nw *fabricNetwork) exchangeAddrs(failed error) {
	defer close(nw.exchanged)
	if nw.member == nil {
		return
	}
	mine := message{Addrs: map[int][]byte{}}
	if failed != nil {
		mine.Failure = failed.Error()
	}
	for rank, addr := range nw.addrs {
		if nw.member.hosts(rank) {
			mine.Addrs[rank] = addr
		}
	}
	words, err := nw.member.exchange(mine)
	for _, w := range words {
		if w.Failure != "" && err == nil {
			err = fmt.Errorf("%w: program %d: %s", fabric.ErrPeerDown, w.Program, w.Failure)
		}
		for rank, addr := range w.Addrs {
			if rank >= 0 && rank < len(nw.addrs) {
				nw.addrs[rank] = addr
			}
		}
	}
	if nw.failed == nil {
		nw.failed = err
	}
}
