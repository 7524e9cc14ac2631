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

// ties join the ranks of a world.
type ties interface {
	transport(rank int) fabric.Transport
	// address is what the ranks connect by, once all have opened.
	address(rank int) []byte
	// host is the name of a rank's node.
	host(rank int) string
	// fail lets the others know that a rank has failed.
	fail(rank int, err error)
}

// tie joins n ranks as the environment asks; s is nil if all are in this program.
func tie(n int, t bootstrap.Thresholds, s *seat) (ties, error) {
	if s == nil && os.Getenv("IBRUN_TRANSPORT") == "" || n == 1 {
		return hub{mem.NewHub(n)}, nil
	}
	node := auto.Node{}
	if err := node.FromEnv(os.Getenv); err != nil {
		return nil, err
	}
	node.Set(t)
	nw := &network{node: node, seat: s, cards: make([][]byte, n), domains: make([]fabric.Domain, n), all: make(chan struct{})}
	rand.Read(nw.node.Key[:])
	if s != nil {
		nw.node.Key = s.key()
	}
	for rank := range n {
		if s.has(rank) {
			nw.missing++
		}
	}
	return nw, nil
}

// hub is memory of the process.
type hub struct{ *mem.Hub }

func (h hub) transport(int) fabric.Transport { return h.Transport() }
func (h hub) address(int) []byte             { return nil }
func (h hub) host(int) string                { return bootstrap.HostName() }
func (h hub) fail(rank int, err error)       { h.Fail(rank, err) }

// network is transports that join processes and nodes.
type network struct {
	node auto.Node
	seat *seat         // nil if all ranks are in this program
	all  chan struct{} // closed when no card is missing any more, or will never come

	mu      sync.Mutex
	cards   [][]byte
	domains []fabric.Domain
	missing int   // cards of this program's ranks
	failed  error // why not all ranks have opened
}

func (nw *network) transport(rank int) fabric.Transport { return end{nw, rank} }

// host: every two ranks are on one node, or all of a program.
func (nw *network) host(rank int) string {
	if nw.seat != nil {
		return fmt.Sprintf("program-%d", rank%nw.seat.programs)
	}
	return fmt.Sprintf("%s-%d", bootstrap.HostName(), rank/2)
}

// address is asked for when all have opened.
func (nw *network) address(rank int) []byte { return nw.cards[rank] }

// fail closes the domain of the rank that failed, in its own goroutine; those that are connected to it hear of that.
func (nw *network) fail(rank int, err error) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	if d := nw.domains[rank]; d != nil {
		_ = d.Close() // the rank has failed, whatever this says
	} else if nw.failed == nil && nw.missing > 0 {
		nw.failed = fmt.Errorf("%w: rank %d could not open its transport", fabric.ErrPeerDown, rank)
		nw.meet(err)
	}
}

// end is the transport of one rank.
type end struct {
	nw   *network
	rank int
}

func (p end) Name() string { return "auto" }
func (p end) Probe() error { return nil }

// Open returns when every rank has opened, so that all addresses are known.
func (p end) Open(ctx context.Context, c *fabric.Config) (fabric.Domain, error) {
	nw := p.nw
	node := nw.node
	for r := range c.Size {
		if nw.seat == nil && r/2 == p.rank/2 || nw.seat != nil && nw.seat.has(r) {
			node.Local = append(node.Local, r)
		}
	}
	d, err := auto.Open(ctx, c, node)
	if err != nil {
		return nil, err
	}
	nw.publish(p.rank, d)
	<-nw.all
	if nw.failed != nil {
		return nil, errors.Join(nw.failed, d.Close())
	}
	return d, nil
}

func (nw *network) publish(rank int, d fabric.Domain) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.cards[rank], nw.domains[rank] = d.Addr(), d
	if nw.missing--; nw.missing == 0 && nw.failed == nil {
		nw.meet(nil)
	}
}

// meet tells the other programs the cards of this one's ranks, or that one of them has failed, and takes theirs.
func (nw *network) meet(failed error) {
	defer close(nw.all)
	if nw.seat == nil {
		return
	}
	mine := word{Cards: map[int][]byte{}}
	if failed != nil {
		mine.Failure = failed.Error()
	}
	for rank, card := range nw.cards {
		if nw.seat.has(rank) {
			mine.Cards[rank] = card
		}
	}
	words, err := nw.seat.say(mine)
	for _, w := range words {
		if w.Failure != "" && err == nil {
			err = fmt.Errorf("%w: program %d: %s", fabric.ErrPeerDown, w.Program, w.Failure)
		}
		for rank, card := range w.Cards {
			if rank >= 0 && rank < len(nw.cards) {
				nw.cards[rank] = card
			}
		}
	}
	if nw.failed == nil {
		nw.failed = err
	}
}
