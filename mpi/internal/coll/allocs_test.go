package coll

import (
	"sync"
	"testing"

	"github.com/ibrun/ibrun/internal/alloctest"
)

// noopPeer is rank 0 of some ranks. Its calls do nothing and return immediately.
type noopPeer struct {
	Local
	ranks   int
	scratch []byte
	used    int
}

func (p *noopPeer) Rank() int                               { return 0 }
func (p *noopPeer) Size() int                               { return p.ranks }
func (p *noopPeer) Send(int, []byte) error                  { return nil }
func (p *noopPeer) Recv(int, []byte) error                  { return nil }
func (p *noopPeer) Sendrecv(int, []byte, int, []byte) error { return nil }
func (p *noopPeer) Isend(int, []byte) (Handle, error)       { return Handle{}, nil }
func (p *noopPeer) Irecv(int, []byte) (Handle, error)       { return Handle{}, nil }
func (p *noopPeer) Waitall([]Handle) error                  { return nil }
func (p *noopPeer) Cancel([]Handle)                         {}

func (p *noopPeer) Scratch(n int) []byte {
	at := p.used
	p.used += (n + 15) / 16 * 16
	return p.scratch[at : at+n : at+n]
}

// TestAllocs wants no collective to allocate, with messages.
func TestAllocs(t *testing.T) {
	const ranks = 6
	op, root := add(), 0
	buf, out := make([]byte, 1<<20), make([]byte, 1<<20)
	at := Layout{Counts: []int{1, 2, 3, 4, 5, 6}, Displs: []int{0, 1, 3, 6, 10, 15}, Elem: 1000}
	p := &noopPeer{ranks: ranks, scratch: make([]byte, 8<<20)}
	for _, n := range []int{8, 1000, 30000, 160000} {
		n = n / 4 * 4
		for name, call := range map[string]func() error{
			"Barrier":       func() error { return Barrier(p) },
			"BarrierTree":   func() error { return BarrierTree(p) },
			"AllreduceTree": func() error { return AllreduceTree(p, out, buf[:n], op) },
			"Bcast":         func() error { return Bcast(p, buf[:n], root) },
			"Reduce":        func() error { return Reduce(p, out, buf[:n], op, root) },
			"Allreduce":     func() error { return Allreduce(p, out, buf[:n], op) },
			"Gather":        func() error { return Gather(p, out[:n*ranks], buf[:n], root) },
			"Gatherv":       func() error { return Gatherv(p, out, at, buf[:1000], root) },
			"Scatter":       func() error { return Scatter(p, out[:n], buf[:n*ranks], root) },
			"Scatterv":      func() error { return Scatterv(p, out[:1000], buf, at, root) },
			"Allgather":     func() error { return Allgather(p, out[:n*ranks], buf[:n]) },
			"Allgatherv":    func() error { return Allgatherv(p, out, at, buf[:1000]) },
			"Alltoall":      func() error { return Alltoall(p, out[:n*ranks], buf[:n*ranks]) },
			"Alltoallv":     func() error { return Alltoallv(p, out, at, buf, at) },
			"ReduceScatter": func() error { return ReduceScatter(p, out, buf, at.Counts, op) },
			"Scan":          func() error { return Scan(p, out, buf[:n], op) },
			"Exscan":        func() error { return Exscan(p, out, buf[:n], op) },
		} {
			if got := alloctest.Count(5, func() {
				p.used = 0
				if err := call(); err != nil {
					t.Fatal(name, err)
				}
			}); got != 0 {
				t.Errorf("%s of %d bytes allocates %v times", name, n, got)
			}
		}
	}
}

// TestShmAllocs wants no collective to allocate, over shared memory.
func TestShmAllocs(t *testing.T) {
	const ranks, runs = 3, 5
	op := add()
	counts := map[int][]int{24: {1, 1, 1}, 24000: {1000, 1000, 1000}, 480000: {20000, 20000, 20000}}
	for _, mode := range []string{"flat", "oversubscribed", "NUMA"} {
		for name, call := range map[string]func(f *Shm, dst, src []byte) error{
			"Barrier":   func(f *Shm, _, _ []byte) error { return f.Barrier() },
			"Bcast":     func(f *Shm, _, src []byte) error { return f.Bcast(src, 1) },
			"Reduce":    func(f *Shm, dst, src []byte) error { return f.Reduce(dst, src, op, 1) },
			"Allreduce": func(f *Shm, dst, src []byte) error { return f.Allreduce(dst, src, op) },
			"Gather":    func(f *Shm, dst, src []byte) error { return f.Gather(dst, src[:len(src)/ranks], 1) },
			"Scatter":   func(f *Shm, dst, src []byte) error { return f.Scatter(dst[:len(dst)/ranks], src, 1) },
			"Allgather": func(f *Shm, dst, src []byte) error { return f.Allgather(dst, src[:len(src)/ranks]) },
			"Alltoall":  func(f *Shm, dst, src []byte) error { return f.Alltoall(dst, src) },
			"ReduceScatter": func(f *Shm, dst, src []byte) error {
				return f.ReduceScatter(dst[:len(dst)/ranks], src, counts[len(src)], op)
			},
		} {
			best, _ := ShmBytes(ranks)
			flats := newDirectShms(t, ranks, best, mode == "oversubscribed")
			if mode == "NUMA" {
				useNUMA(t, flats, []int32{0, 0, 1})
			}
			for n := range counts {
				bufs := blanks(2*ranks, n)
				one := func(r int) {
					if err := call(flats[r], bufs[r], bufs[ranks+r]); err != nil {
						t.Error(name, err)
					}
				}
				var all sync.WaitGroup
				var begin sync.WaitGroup
				begin.Add(1)
				for r := 1; r < ranks; r++ {
					all.Go(func() {
						begin.Wait()
						for range alloctest.Calls(runs) {
							one(r)
						}
					})
				}
				begin.Done()
				if got := alloctest.Count(runs, func() { one(0) }); got != 0 {
					t.Errorf("%s of %d bytes, %s, allocates %v times", name, n, mode, got)
				}
				all.Wait()
			}
		}
	}
}
