package mpitest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"sync"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/auto"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/mpi/internal/place"
)

// ties join the ranks of a world.
type ties interface {
	transport(rank int) fabric.Transport
	// address is what the ranks connect by, once all have opened.
	address(rank int) []byte
	// fail lets the others know that a rank has failed.
	fail(rank int, err error)
}

// tie joins n ranks as the environment asks.
func tie(n int, t place.Thresholds) (ties, error) {
	if os.Getenv("IBRUN_TRANSPORT") == "" || n == 1 {
		return hub{mem.NewHub(n)}, nil
	}
	node := auto.Node{}
	if err := node.FromEnv(os.Getenv); err != nil {
		return nil, err
	}
	node.Set(t)
	rand.Read(node.Key[:])
	nw := &network{node: node, cards: make([][]byte, n), domains: make([]fabric.Domain, n), all: make(chan struct{}), missing: n}
	return nw, nil
}

// hub is memory of the process.
type hub struct{ *mem.Hub }

func (h hub) transport(int) fabric.Transport { return h.Transport() }
func (h hub) address(int) []byte             { return nil }
func (h hub) fail(rank int, err error)       { h.Fail(rank, err) }

// network is transports that join processes and nodes.
type network struct {
	node auto.Node
	all  chan struct{} // closed when no card is missing any more, or will never come

	mu      sync.Mutex
	cards   [][]byte
	domains []fabric.Domain
	missing int
	failed  bool
}

func (nw *network) transport(rank int) fabric.Transport { return seat{nw, rank} }

// address is asked for when all have opened.
func (nw *network) address(rank int) []byte { return nw.cards[rank] }

// fail closes the domain of the rank that failed, in its own goroutine; those that are connected to it hear of that.
func (nw *network) fail(rank int, _ error) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	if d := nw.domains[rank]; d != nil {
		_ = d.Close() // the rank has failed, whatever this says
	} else if !nw.failed && nw.missing > 0 {
		nw.failed = true
		close(nw.all)
	}
}

// seat is the transport of one rank.
type seat struct {
	nw   *network
	rank int
}

func (p seat) Name() string { return "auto" }
func (p seat) Probe() error { return nil }

// Open returns when every rank has opened, so that all addresses are known.
func (p seat) Open(ctx context.Context, c *fabric.Config) (fabric.Domain, error) {
	node := p.nw.node
	for r := p.rank &^ 1; r <= p.rank|1 && r < c.Size; r++ {
		node.Local = append(node.Local, r)
	}
	d, err := auto.Open(ctx, c, node)
	if err != nil {
		return nil, err
	}
	p.nw.publish(p.rank, d)
	<-p.nw.all
	if p.nw.failed {
		return nil, fmt.Errorf("%w: another rank could not open its transport", fabric.ErrPeerDown)
	}
	return d, nil
}

func (nw *network) publish(rank int, d fabric.Domain) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.cards[rank], nw.domains[rank] = d.Addr(), d
	if nw.missing--; nw.missing == 0 && !nw.failed {
		close(nw.all)
	}
}
