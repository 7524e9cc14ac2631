package coll

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
)

// gosched waits for words by letting other goroutines run.
type gosched struct{ broken *atomic.Bool }

var errBroken = errors.New("broken")

func (w gosched) WaitAtLeast(_ int, p *uint64, v uint64) error {
	for int64(atomic.LoadUint64(p)-v) < 0 {
		if w.broken.Load() {
			return errBroken
		}
		runtime.Gosched()
	}
	return nil
}

func (gosched) Publish(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

// difference is the error of a collective in which the calls of ranks differ.
type difference struct {
	rank        int
	mine, other uint64
}

func (d difference) Error() string {
	return fmt.Sprintf("rank %d calls %x, this rank %x", d.rank, d.other, d.mine)
}

func (w gosched) Differ(rank int, mine, other uint64) error {
	w.broken.Store(true)
	return difference{rank, mine, other}
}

// segment is zeroed memory that begins at a page, as memory that processes share does: that of large allocations
// does too.
func segment(n int) []byte { return make([]byte, max(n, 64*kib))[:n] }

// newShms returns a Shm for each rank, over the same memory.
func newShms(t testing.TB, ranks, memory int, oversubscribed bool) (shms []*Shm, broken *atomic.Bool) {
	t.Helper()
	broken = new(atomic.Bool)
	c := ShmConfig{Size: ranks, Oversubscribed: oversubscribed, Sync: gosched{broken}}
	c.Mem, c.Allocate = sparse(t, memory, ShmWords(ranks, memory))
	for r := range ranks {
		c.Rank, c.Cores = r, r
		f, err := NewShm(c)
		if err != nil {
			t.Fatal(err)
		}
		shms = append(shms, f)
	}
	return shms, broken
}

// remote is the memory of ranks in one process: its addresses are numbers of buffers, and offsets.
type remote struct {
	mu      sync.Mutex
	buffers [][]byte
}

const bufferBits = 32

func (m *remote) Address(b []byte) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.buffers = append(m.buffers, b)
	return uint64(len(m.buffers)-1) << bufferBits
}

func (*remote) Process() uint64 { return 1 }

func (m *remote) Read(_ int, _ uint64, dst []byte, addr uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	copy(dst, m.buffers[addr>>bufferBits][addr&(1<<bufferBits-1):])
	return nil
}

// otherMemory reads other bytes than those of the rank.
type otherMemory struct{ *remote }

func (otherMemory) Read(int, uint64, []byte, uint64) error { return nil }

// newDirectShms is newShms for ranks that can read each other's memory.
func newDirectShms(t testing.TB, ranks, memory int, oversubscribed bool) []*Shm {
	t.Helper()
	shms, _ := newShms(t, ranks, memory, oversubscribed)
	m := new(remote)
	for _, f := range shms {
		f.Remote = m
	}
	tryRemote(t, shms)
	return shms
}

// tryRemote lets ranks find out whether they can read each other's memory.
func tryRemote(t testing.TB, shms []*Shm) {
	t.Helper()
	if err := errors.Join(callAll(shms, (*Shm).TryRemote)...); err != nil {
		t.Fatal(err)
	}
}

// TestTryRemote: ranks copy directly if all can read the right bytes of all others, and otherwise none does.
func TestTryRemote(t *testing.T) {
	const n, length = 4, 200 * kib
	for _, good := range []bool{true, false} {
		best, _ := ShmBytes(n)
		shms := newDirectShms(t, n, best, true)
		if !good {
			shms[2].Remote = otherMemory{new(remote)}
			tryRemote(t, shms)
		}
		for range 2 {
			for r, err := range callAll(shms, func(f *Shm) error {
				f.Begin(3)
				return f.Alltoall(make([]byte, n*length), make([]byte, n*length))
			}) {
				if f := shms[r]; err != nil || (f.Remote != nil) != good || len(f.processes) != n {
					t.Errorf("good %v, rank %d: %v, remote memory %v, processes %v", good, r, err, f.Remote, f.processes)
				}
			}
		}
	}
}

// act is one collective of all ranks: what each does, and what is wrong afterwards.
type act struct {
	name  string
	do    func(f *Shm) error
	check func() error
}

// differ compares what each rank has with what it is to have.
func differ(got [][]byte, want func(i int) []byte) func() error {
	return func() error {
		for i := range got {
			if w := want(i); got[i] != nil && !bytes.Equal(got[i], w) {
				return fmt.Errorf("rank %d has\n%x, want\n%x", i, got[i], w)
			}
		}
		return nil
	}
}

// only keeps one of the buffers.
func only(bufs [][]byte, i int) [][]byte {
	one := make([][]byte, len(bufs))
	one[i] = bufs[i]
	return one
}

// draw is a collective of any kind with data of some length, in place or not.
func draw(r *rand.Rand, n, length int) act {
	root, in := r.IntN(n), r.IntN(2) == 0
	op := add()
	if r.IntN(2) == 0 {
		op = affine()
	}
	switch r.IntN(8) {
	case 6:
		return drawReduceScatter(r, n, length/8*8, in, op)
	case 0:
		bufs := random(r, n, length)
		want := append([]byte{}, bufs[root]...)
		return act{"bcast", func(f *Shm) error { return f.Bcast(bufs[f.Rank], root) },
			differ(bufs, func(int) []byte { return want })}
	case 1:
		src := random(r, n, length/8*8)
		want, dst := reduced(src, op), only(results(src, length/8*8, in), root)
		return act{"reduce", func(f *Shm) error { return f.Reduce(dst[f.Rank], src[f.Rank], op, root) },
			differ(dst, func(int) []byte { return want })}
	case 2, 3:
		src := random(r, n, length/8*8)
		want, dst := reduced(src, op), results(src, length/8*8, in)
		return act{"allreduce", func(f *Shm) error { return f.Allreduce(dst[f.Rank], src[f.Rank], op) },
			differ(dst, func(int) []byte { return want })}
	case 4:
		return drawGather(r, n, length, root, in)
	case 5:
		whole := random(r, 1, length*n)[0]
		src, dst := make([][]byte, n), blanks(n, length)
		src[root] = append([]byte{}, whole...)
		return act{"scatter", func(f *Shm) error { return f.Scatter(dst[f.Rank], src[f.Rank], root) },
			differ(dst, func(i int) []byte { return blockAt(whole, i, length) })}
	}
	src := random(r, n, length*n)
	before, dst := clones(src), results(src, length*n, in)
	return act{"alltoall", func(f *Shm) error { return f.Alltoall(dst[f.Rank], src[f.Rank]) },
		differ(dst, func(i int) []byte {
			var want []byte
			for j := range before {
				want = append(want, blockAt(before[j], i, length)...)
			}
			return want
		})}
}

// drawReduceScatter is a ReduceScatter with counts that differ.
func drawReduceScatter(r *rand.Rand, n, length int, in bool, op *Operation) act {
	src := random(r, n, length)
	want, counts, left := reduced(src, op), make([]int, n), length/op.ElemSize
	dst, parts := make([][]byte, n), make([][]byte, n)
	for i := range n {
		counts[i] = left
		if i < n-1 {
			counts[i] = r.IntN(left + 1)
		}
		left -= counts[i]
	}
	for i := range n {
		parts[i] = blockOf(want, counts, i, op.ElemSize)
		if dst[i] = make([]byte, len(parts[i])); in {
			dst[i] = src[i][:len(parts[i])]
		}
	}
	if starts := startsOf(parts); in && r.IntN(2) == 0 { // as in a two-level Allreduce
		for i := range n {
			dst[i] = src[i][starts[i]:][:len(parts[i])]
		}
		return act{"reduce_scatter of parts", func(f *Shm) error {
			return f.reduceScatter(dst[f.Rank], src[f.Rank][:length/op.ElemSize*op.ElemSize], starts[f.Rank], op)
		}, differ(dst, func(i int) []byte { return parts[i] })}
	}
	return act{"reduce_scatter", func(f *Shm) error {
		return f.ReduceScatter(dst[f.Rank], src[f.Rank][:length/op.ElemSize*op.ElemSize], counts, op)
	}, differ(dst, func(i int) []byte { return parts[i] })}
}

// startsOf returns where each of consecutive parts begins.
func startsOf(parts [][]byte) (starts []int) {
	at := 0
	for _, p := range parts {
		starts, at = append(starts, at), at+len(p)
	}
	return starts
}

// drawGather is a Gather or an Allgather.
func drawGather(r *rand.Rand, n, length, root int, in bool) act {
	src, dst := random(r, n, length), blanks(n, length*n)
	want := joined(src)
	if in {
		for i := range dst {
			copy(blockAt(dst[i], i, length), src[i])
		}
	}
	if r.IntN(2) == 0 {
		if in {
			src = dst
		}
		return act{"allgather", func(f *Shm) error { return f.Allgather(dst[f.Rank], src[f.Rank]) },
			differ(dst, func(int) []byte { return want })}
	}
	if in {
		src[root] = dst[root]
	}
	return act{"gather", func(f *Shm) error { return f.Gather(dst[f.Rank], src[f.Rank], root) },
		differ(only(dst, root), func(int) []byte { return want })}
}

// alwaysDirect selects DirectCopy wherever there is that algorithm.
var alwaysDirect = func() *Table {
	t := &Table{}
	for c := OfBarrier; c <= OfReduceScatter; c++ {
		if slices.Contains(Candidates(c), DirectCopy) {
			t.Rules = append(t.Rules, Rule{Collective: c, Algorithm: DirectCopy, MaxBytes: always})
		}
	}
	return t
}()

// TestShm lets ranks run long sequences of different collectives without waiting for each other in between, over as
// little memory as there may be and over as much as is of use. With IBRUN_SOAK=1 it tries each number of ranks up to 9, longer
// sequences, and more of them.
func TestShm(t *testing.T) {
	for _, oversubscribed := range []bool{false, true} {
		for _, n := range soaktest.Choose([]int{1, 2, 3, 4, 5, 6, 7, 8, 9}, []int{1, 2, 3, 5, 8}) {
			best, least := ShmBytes(n)
			for seed, memory := range []int{least, best, least + 3*n*minSlotBytes, least}[:min(shmSeeds, soaktest.Choose(4, 3))] {
				for _, direct := range []bool{false, true} {
					if direct && seed >= 2 && !soaktest.On() {
						continue // what is copied directly needs no slots
					}
					t.Run(fmt.Sprintf("oversubscribed=%v/ranks=%d/seed=%d/direct=%v", oversubscribed, n, seed, direct), func(t *testing.T) {
						r := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
						var acts []act
						for range soaktest.Choose(40, 30) {
							length := []int{0, 1, 8, 24, 104, 112, 120, 1001, 5000, 20000, 70000 / n, 150000}[r.IntN(12)]
							acts = append(acts, draw(r, n, length))
						}
						shms, _ := newShms(t, n, memory, oversubscribed)
						if direct {
							shms = newDirectShms(t, n, memory, oversubscribed)
							for _, f := range shms {
								f.Table = alwaysDirect
							}
						}
						runActs(t, shms, acts)
					})
				}
			}
		}
	}
}

func runActs(t *testing.T, shms []*Shm, acts []act) {
	errs := make([]error, len(shms))
	var all sync.WaitGroup
	for r, f := range shms {
		all.Go(func() {
			for i, a := range acts {
				f.Begin(uint64(i))
				if err := a.do(f); err != nil {
					errs[r] = fmt.Errorf("%d. %s: %w", i, a.name, err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for i, a := range acts {
		if err := a.check(); err != nil {
			t.Fatalf("%d. %s: %v", i, a.name, err)
		}
	}
}

func TestShmBarrier(t *testing.T) {
	for _, oversubscribed := range []bool{false, true} {
		for n := 1; n <= 9; n++ {
			best, _ := ShmBytes(n)
			shms, _ := newShms(t, n, best, oversubscribed)
			const rounds = 100
			var in atomic.Int64
			var all sync.WaitGroup
			for _, f := range shms {
				all.Go(func() {
					for i := range rounds {
						in.Add(1)
						f.Begin(uint64(i))
						if err := f.Barrier(); err != nil {
							t.Error(err)
							return
						}
						if got := in.Load(); got < int64(n*(i+1)) {
							t.Errorf("barrier %d of %d ranks was left when %d had come", i, n, got-int64(n*i))
						}
					}
				})
			}
			all.Wait()
		}
	}
}

// releases counts how often a rank has let all leave a step.
type releases struct {
	gosched
	f *Shm
	n int
}

func (x *releases) Publish(w *uint64, v uint64) {
	if w == x.f.filledWord(x.f.Size) && v == x.f.allMayLeave() {
		x.n++
	}
	x.gosched.Publish(w, v)
}

// TestBarrierBefore: the root that all name leaves first, so it lets the others leave. If they name different ones, every barrier
// is left as well, and so are the collectives between them.
func TestBarrierBefore(t *testing.T) {
	const n, rounds = 4, 200
	for _, named := range []string{"none", "one", "different"} {
		best, _ := ShmBytes(n)
		shms, broken := newShms(t, n, best, true)
		var counts [n]releases
		var all sync.WaitGroup
		for r, f := range shms {
			counts[r] = releases{gosched: gosched{broken}, f: f}
			f.Sync = &counts[r]
			all.Go(func() {
				rnd, op := rand.New(rand.NewPCG(uint64(r), 1)), add()
				for i := range rounds {
					root := map[string]int{"none": -1, "one": 2, "different": rnd.IntN(n+1) - 1}[named]
					f.Begin(uint64(i))
					if err := f.BarrierBefore(root); err != nil {
						t.Error(err)
						return
					}
					if named != "different" {
						continue
					}
					sum := []byte{1, 0, 0, 0}
					f.Begin(uint64(i))
					if err := f.Allreduce(sum, sum, op); err != nil || sum[0] != n {
						t.Errorf("allreduce %d: %v, %v", i, sum, err)
						return
					}
				}
			})
		}
		all.Wait()
		if got := counts[2].n; named == "one" && got != rounds {
			t.Errorf("the root let all leave %d of %d barriers", got, rounds)
		}
	}
}

// TestBarrierRootDies: a rank that lets another one leave first learns that the communicator is broken.
func TestBarrierRootDies(t *testing.T) {
	best, _ := ShmBytes(2)
	shms, broken := newShms(t, 2, best, true)
	broken.Store(true)
	for _, r := range []int{1, 0} {
		shms[r].Begin(1)
		if err := shms[r].BarrierBefore(1); !errors.Is(err, errBroken) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestShmAhead lets a root run ahead of ranks that have not called yet, which it may do for as many steps as it has
// slots.
func TestShmAhead(t *testing.T) {
	best, _ := ShmBytes(2)
	shms, _ := newShms(t, 2, best, true)
	bufs := make([][8]byte, shms[0].slots)
	for i := range bufs {
		bufs[i][0] = byte(i + 1)
		shms[0].Begin(uint64(i))
		if err := shms[0].Bcast(bufs[i][:], 0); err != nil {
			t.Fatal(err)
		}
	}
	for i := range bufs {
		var got [8]byte
		shms[1].Begin(uint64(i))
		if err := shms[1].Bcast(got[:], 0); err != nil {
			t.Fatal(err)
		}
		if got != bufs[i] {
			t.Errorf("broadcast %d brought %v", i, got)
		}
	}
}

// TestShmBroken: every method returns the error of WordSync if the other ranks never call it.
func TestShmBroken(t *testing.T) {
	op := add()
	buf, out := make([]byte, 400*kib), make([]byte, 400*kib)
	for name, do := range map[string]func(f *Shm) error{
		"barrier":          func(f *Shm) error { return f.Barrier() },
		"bcast, root":      func(f *Shm) error { return f.Bcast(buf, 0) },
		"bcast":            func(f *Shm) error { return f.Bcast(buf, 1) },
		"reduce, root":     func(f *Shm) error { return f.Reduce(out, buf, op, 0) },
		"reduce":           func(f *Shm) error { return f.Reduce(out, buf, op, 1) },
		"allreduce":        func(f *Shm) error { return f.Allreduce(out[:8], buf[:8], op) },
		"allreduce, long":  func(f *Shm) error { return f.Allreduce(out, buf, op) },
		"gather, root":     func(f *Shm) error { return f.Gather(out, buf[:200*kib], 0) },
		"gather":           func(f *Shm) error { return f.Gather(nil, buf, 1) },
		"scatter, root":    func(f *Shm) error { return f.Scatter(out[:200*kib], buf, 0) },
		"scatter":          func(f *Shm) error { return f.Scatter(out, nil, 1) },
		"allgather":        func(f *Shm) error { return f.Allgather(out, buf[:200*kib]) },
		"alltoall":         func(f *Shm) error { return f.Alltoall(out, buf) },
		"reduce_scatter":   func(f *Shm) error { return f.ReduceScatter(out[:8], buf[:16], []int{1, 1}, op) },
		"bcast, many":      func(f *Shm) error { return f.Bcast(buf[:200*kib], 0) },
		"allreduce, small": func(f *Shm) error { return f.Allreduce(out[:8*kib], buf[:8*kib], op) },
	} {
		for _, oversubscribed := range []bool{false, true} {
			_, least := ShmBytes(2)
			shms, broken := newShms(t, 2, least, oversubscribed)
			broken.Store(true)
			if err := do(shms[0]); !errors.Is(err, errBroken) {
				t.Errorf("%s, oversubscribed %v: %v", name, oversubscribed, err)
			}
		}
	}
}

// TestDirectBroken is TestShmBroken for ranks that copy directly.
func TestDirectBroken(t *testing.T) {
	const n = 6
	buf, out := make([]byte, n*200*kib), make([]byte, n*200*kib)
	for name, do := range map[string]func(f *Shm) error{
		"alltoall":      func(f *Shm) error { return f.Alltoall(out, buf) },
		"scatter":       func(f *Shm) error { return f.Scatter(out[:200*kib], nil, 1) },
		"scatter, root": func(f *Shm) error { return f.Scatter(out[:200*kib], buf, 0) },
	} {
		best, _ := ShmBytes(n)
		shms := newDirectShms(t, n, best, true)
		shms[0].Sync.(gosched).broken.Store(true)
		if err := do(shms[0]); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewShmRefuses(t *testing.T) {
	best, least := ShmBytes(4)
	mem := segment(best + 64)
	for what, s := range map[string]ShmConfig{
		"too little memory":          {Mem: mem[:least-1], Size: 4},
		"memory that is not aligned": {Mem: mem[64:], Size: 4},
		"too many ranks":             {Mem: mem, Size: minSlotBytes + 1},
	} {
		if _, err := NewShm(s); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if _, err := NewShm(ShmConfig{Mem: mem[:least], Size: 4}); err != nil {
		t.Error(err)
	}
}

// TestShmBytes compares the layout of memory with its length.
func TestShmBytes(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 8, 16, 40, 64, 100, 300} {
		best, least := ShmBytes(n)
		for _, memory := range []int{least, best, best + 12345, (least + best) / 2} {
			f, err := NewShm(ShmConfig{Mem: segment(memory), Size: n})
			if err != nil {
				t.Fatal(err)
			}
			if f.slotBytes < minSlotBytes || f.slots < minSlots {
				t.Fatalf("%d ranks, %d bytes: %d slots of %d bytes", n, memory, f.slots, f.slotBytes)
			}
			f.step = f.slots - 1 // the last slot, of the last rank and of none
			f.data(n-1, f.slotBytes)
			if top := f.headOffset(n) + line; top > fixedBytes(n)+n*int(f.slots)*line-resultBytes {
				t.Fatalf("%d ranks, %d bytes: words end at %d, in the midst of data", n, memory, top)
			}
			if &f.data(n, resultBytes)[resultBytes-1] == &f.data(0, resultBytes)[0] {
				t.Fatalf("%d ranks, %d bytes: data overlap", n, memory)
			}
		}
		if best > 6<<20 {
			t.Fatalf("%d ranks want %d bytes", n, best)
		}
	}
}

func TestPrefers(t *testing.T) {
	for _, c := range []struct {
		ranks int
		c     Collective
		bytes int
		want  bool
	}{
		{2, OfBarrier, 0, true}, {2, OfAllreduce, 8, true}, {2, OfAllreduce, 1 << 30, true}, {3, OfAllreduce, 1 << 30, false},
		{2, OfBcast, 1 << 30, false}, {3, OfBcast, 1 << 30, true}, {3, OfAlltoall, 1 << 20, false}, {3, OfReduceScatter, 8, true},
	} {
		shms, _ := newShms(t, c.ranks, 1<<20, false)
		if got := shms[0].Select(c.c, c.bytes) != None; got != c.want {
			t.Errorf("%v of %d bytes between %d ranks: %v", c.c, c.bytes, c.ranks, got)
		}
	}
}
