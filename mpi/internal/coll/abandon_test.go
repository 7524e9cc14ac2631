package coll

import (
	"errors"
	"slices"
	"testing"
)

var errInjected = errors.New("injected failure")

// failingPeer is a rank whose call number failsAt fails; no call moves data.
type failingPeer struct {
	noopPeer
	rank, calls, failsAt int
	levels               Levels
	open                 []Handle // sends and receives in progress
}

func (p *failingPeer) Rank() int { return p.rank }

func (p *failingPeer) Levels() *Levels {
	if p.levels.Nodes == nil {
		return nil
	}
	return &p.levels
}

func (p *failingPeer) call() error {
	if p.calls++; p.calls-1 == p.failsAt {
		return errInjected
	}
	return nil
}

func (p *failingPeer) begin() (Handle, error) {
	if err := p.call(); err != nil {
		return Handle{}, err
	}
	h := Handle{A: uint64(p.calls), B: 1}
	p.open = append(p.open, h)
	return h, nil
}

func (p *failingPeer) Send(int, []byte) error                  { return p.call() }
func (p *failingPeer) Recv(int, []byte) error                  { return p.call() }
func (p *failingPeer) Sendrecv(int, []byte, int, []byte) error { return p.call() }
func (p *failingPeer) Isend(int, []byte) (Handle, error)       { return p.begin() }
func (p *failingPeer) Irecv(int, []byte) (Handle, error)       { return p.begin() }

func (p *failingPeer) Waitall(hs []Handle) error {
	p.Cancel(hs)
	return p.call()
}

func (p *failingPeer) Cancel(hs []Handle) {
	p.open = slices.DeleteFunc(p.open, func(h Handle) bool { return slices.Contains(hs, h) })
}

// TestFailureLeavesNothing fails each call of each algorithm, at each rank: when the collective returns the error, no send and no
// receive is in progress, which would still write to its buffers.
func TestFailureLeavesNothing(t *testing.T) {
	const ranks, n = 6, 8
	at := Layout{Counts: make([]int, ranks), Displs: make([]int, ranks), Elem: 4}
	for i := range ranks {
		at.Counts[i], at.Displs[i] = 2, 2*i
	}
	dst, src, scratch := make([]byte, n*ranks), make([]byte, n*ranks), make([]byte, 1<<16)
	ring := &Edges{Sources: []int{0, 1, 2, 3, 4, 5}, Destinations: []int{5, 4, 3, 2, 1, 0}}
	calls := map[string]func(p *failingPeer) error{
		"Gatherv":    func(p *failingPeer) error { return Gatherv(p, dst, at, src[:n], 1) },
		"Scatterv":   func(p *failingPeer) error { return Scatterv(p, dst[:n], src, at, 1) },
		"Allgatherv": func(p *failingPeer) error { return allgathervScattered(p, dst, &at) },
		"Alltoallv":  func(p *failingPeer) error { return Alltoallv(p, dst, at, src, at) },
		"Neighbor":   func(p *failingPeer) error { return Neighbor(p, ring, dst, at, src, at) },
	}
	nodes := NewNodes([]int32{0, 1, 0, 1, 2, 2})
	for c := OfBarrier; c <= OfReduceScatter; c++ {
		for _, a := range Algorithms(c, ranks, nodes.Family()) {
			calls[c.String()+" by "+a.String()] = func(p *failingPeer) error {
				x := &Arguments{Dst: dst, Src: src, Root: 1, Op: add(), Counts: at.Counts}
				switch {
				case c == OfGather && p.rank != x.Root, c == OfAllgather, c == OfReduceScatter:
					x.Src = src[:n]
				case c == OfScatter:
					x.Dst = dst[:n]
				}
				if c == OfReduceScatter {
					x.Src = src
				}
				return Run(p, c, a, x)
			}
		}
	}
	for name, call := range calls {
		for rank := range ranks {
			for failsAt, failed := 0, true; failed; failsAt++ {
				p := &failingPeer{noopPeer: noopPeer{ranks: ranks, scratch: scratch}, rank: rank, failsAt: failsAt}
				p.levels.Init(p, nodes)
				err := call(p)
				failed = p.calls > failsAt
				if failed != errors.Is(err, errInjected) || !failed && err != nil || len(p.open) != 0 {
					t.Fatalf("%s, rank %d of %d, failure %d: %v, %d messages left", name, rank, ranks, failsAt, err, len(p.open))
				}
			}
		}
	}
}
