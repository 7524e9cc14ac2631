package coll

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
)

// directRun is calls of immediate collectives in progress at some ranks, which do their steps in any order.
type directRun struct {
	t     *testing.T
	seed  uint64
	rnd   *rand.Rand
	all   []*ShmImmediate
	cases []*immediateCase
	next  [][]int   // by rank and case, the next step
	waits [][]int   // by rank and case, the rank for which the step waits
	errs  [][]error // by rank and case
}

// newDirectRun makes collectives between some ranks, with and without direct copies. Runs with other streams draw other numbers.
func newDirectRun(t *testing.T, ranks, n, stream int) *directRun {
	seed := soaktest.Seed(t)
	x := &directRun{t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, uint64(stream))), all: newDirectImmediates(t, ranks)}
	for range n {
		c := immediateKinds[x.rnd.IntN(len(immediateKinds))]
		if x.rnd.IntN(2) == 0 {
			c = []Collective{OfBcast, OfScatter}[x.rnd.IntN(2)]
		}
		least := leastDirect(c, ranks)
		if least == 0 || x.rnd.IntN(3) == 0 {
			x.cases = append(x.cases, newImmediateCase(t, x.rnd, x.all))
			continue
		}
		length := least + x.rnd.IntN(10_000)
		if x.rnd.IntN(5) == 0 {
			length += copyBytes
		}
		if c == OfBcast { // all blocks together
			length = length/ranks + 1
		}
		y := newCase(t, x.rnd, x.all, c, length)
		if !y.plans[0].SharedCalls[0].direct {
			t.Fatalf("%v of %d bytes and more between %d ranks makes no direct copies", c, length, ranks)
		}
		x.cases = append(x.cases, y)
	}
	x.makeStates()
	return x
}

// makeStates makes the states of all calls, which have not begun.
func (x *directRun) makeStates() {
	x.next, x.waits, x.errs = nil, nil, nil
	for n := len(x.cases); len(x.next) < len(x.all); {
		x.next, x.waits = append(x.next, make([]int, n)), append(x.waits, make([]int, n))
		x.errs = append(x.errs, make([]error, n))
	}
}

// leastDirect returns a number of bytes, counted as [Rule.MaxBytes] describes, from which on a collective makes direct copies;
// 0 if it makes none.
func leastDirect(c Collective, ranks int) int {
	for n := kib; n <= 2048*kib; n *= 2 {
		if ChooseImmediate(nil, c, n, ranks, Direct).Algorithm == DirectCopy {
			return n
		}
	}
	return 0
}

// ended reports whether a call has ended at a rank.
func (x *directRun) ended(r, i int) bool { return x.next[r][i] == len(x.cases[i].plans[r].Steps) }

// step tries the next step of a call at a rank, and reports whether it has done a part of it at least.
func (x *directRun) step(r, i int) bool {
	f, p := x.all[r], x.cases[i].plans[r]
	s, done := &p.Steps[x.next[r][i]], true
	switch s.Kind {
	case StepShared:
		x.waits[r][i], done, x.errs[r][i] = f.Advance(&p.SharedCalls[0])
	case StepDirect:
		done = f.Copy(&p.SharedCalls[0])
	default:
		p.Do(s)
	}
	if !done {
		return s.Kind == StepDirect || x.waits[r][i] == PartDone
	}
	x.next[r][i]++
	if x.ended(r, i) && !bytes.Equal(x.cases[i].got[r], x.cases[i].want[r]) {
		x.t.Fatalf("seed %d, call %d, rank %d: %v of %d bytes is wrong", x.seed, i, r, p.SharedCalls[0].Collective,
			p.SharedCalls[0].Bytes)
	}
	return true
}

// run lets ranks do steps in a random order until all calls have ended, or stop reports true.
func (x *directRun) run(stop func() bool) {
	ranks := len(x.all)
	begun, left := make([]int, ranks), ranks*len(x.cases)
	for turns := 0; left > 0 && !stop(); turns++ {
		if turns > 10_000_000 {
			x.t.Fatalf("seed %d: %d calls do not end: steps %v", x.seed, left, x.next)
		}
		r := x.rnd.IntN(ranks)
		if n := begun[r]; n < len(x.cases) && x.rnd.IntN(3) == 0 {
			if call := &x.cases[n].plans[r].SharedCalls[0]; call.Used() {
				x.all[r].Begin(call, uint64(n))
				x.all[r].Allocate(call)
			}
			begun[r]++
		}
		for i := range begun[r] {
			if x.ended(r, i) || x.rnd.IntN(2) == 0 {
				continue
			}
			if x.step(r, i); x.errs[r][i] != nil {
				x.t.Fatalf("seed %d: %v", x.seed, x.errs[r][i])
			}
			if x.ended(r, i) {
				left--
			}
		}
	}
}

// TestDirectImmediate: whatever the order in which ranks begin calls and do their steps, long calls and short ones end with the
// right results, also with more in progress than there are slots.
func TestDirectImmediate(t *testing.T) {
	for _, ranks := range []int{3, 5, 8} {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			x := newDirectRun(t, ranks, 16, 1)
			for _, c := range x.cases {
				if p := c.plans[0]; len(p.Steps) == 0 || p.Steps[0].Kind == StepSend {
					t.Fatalf("%v uses messages", p.SharedCalls[0].Collective)
				}
			}
			x.run(func() bool { return false })
		})
	}
}

// immediateTable returns a table with rules of immediate collectives.
func immediateTable(t *testing.T) *Table {
	t.Helper()
	table, err := ParseTable([]byte(`{"ibrun_collectives": 1, "rules": [
		{"collective": "ibcast", "algorithm": "direct copy"},
		{"collective": "iscatter", "algorithm": "direct copy"},
		{"collective": "igather", "algorithm": "shared memory"},
		{"collective": "ireduce", "algorithm": "messages", "max_bytes": 100},
		{"collective": "gather", "algorithm": "linear"},
		{"collective": "ialltoall", "algorithm": "messages", "min_ranks": 4}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestImmediateTable: the rules of a table are searched first, for blocks of any length, and calls that they select end with the
// right results.
func TestImmediateTable(t *testing.T) {
	table := immediateTable(t)
	for _, ranks := range []int{2, 3, 5} {
		x := newDirectRun(t, ranks, 0, 1)
		for _, f := range x.all {
			f.table = table
		}
		for _, n := range []int{1, 64, 5000, 100_000} {
			for _, c := range immediateKinds {
				want := ChooseImmediate(nil, c, n, ranks, Direct).Algorithm
				switch c {
				case OfBcast, OfScatter:
					want = DirectCopy
				case OfGather:
					want = SharedMemory
				case OfReduce:
					if n <= 100 {
						want = None
					}
				case OfAlltoall:
					if ranks >= 4 {
						want = None
					}
				}
				if got := x.all[0].Select(c, n); got != want {
					t.Errorf("%v of %d bytes between %d ranks: %v, want %v", c, n, ranks, got, want)
				}
				if want == None || n > 5000 && c != OfBcast && c != OfScatter && c != OfGather { // long reductions take seconds
					continue
				}
				y := newCase(t, x.rnd, x.all, c, n)
				if s := &y.plans[0].SharedCalls[0]; s.Used() {
					x.cases = append(x.cases, y)
				} else if c == OfBcast || c == OfScatter || c == OfGather {
					t.Errorf("%v of %d bytes between %d ranks uses messages", c, n, ranks)
				}
			}
		}
		x.makeStates()
		x.run(func() bool { return false })
	}
}

// TestImmediateTableLimits: rules of a table are not used where they cannot hold, and not for the phases of collectives on
// several nodes.
func TestImmediateTableLimits(t *testing.T) {
	table := immediateTable(t)
	words, data := ShmImmediatesBytes(2, true)
	s, err := NewShmImmediates(ShmImmediateConfig{
		Words: segment(words), Data: segment(data), Size: 2, Sync: gosched{new(atomic.Bool)}, Table: table,
	}, true)
	if err != nil {
		t.Fatal(err)
	}
	if got := s[fanIn].Select(OfReduce, 8); got != SharedMemory {
		t.Errorf("a phase of a reduction on several nodes: %v", got)
	}
	for _, f := range []Family{Shared, Direct} {
		if got := ChooseImmediate(table, OfBcast, 0, 3, f).Algorithm; got != SharedMemory {
			t.Errorf("a broadcast of nothing: %v", got)
		}
	}
	if got := ChooseImmediate(table, OfBcast, 1000, 3, Shared).Algorithm; got != SharedMemory {
		t.Errorf("a broadcast between ranks that cannot read each other's memory: %v", got)
	}
	if got := ChooseImmediate(table, OfGather, 1<<20, 4096, Direct).Algorithm; got != None {
		t.Errorf("a gather of long blocks with short slots: %v", got)
	}
}

// mortalMemory is the memory of ranks of which one dies.
type mortalMemory struct {
	*remote
	dead *atomic.Int32
}

var errDead = errors.New("dead")

func (m mortalMemory) Read(rank int, process uint64, dst []byte, addr uint64) error {
	if int32(rank) == m.dead.Load() {
		return errDead
	}
	return m.remote.Read(rank, process, dst, addr)
}

// TestDirectDeath: a rank dies after any number of its steps. At every other rank each call ends, fails, or waits for a rank that
// has died or failed, which is an error in earnest. A rank that has failed overwrites its buffers; no call ends with such data.
func TestDirectDeath(t *testing.T) {
	for _, ranks := range []int{3, 4} {
		for steps := range 12 {
			t.Run(fmt.Sprint(ranks, " ranks, ", steps, " steps"), func(t *testing.T) {
				x := newDirectRun(t, ranks, 6, steps)
				dies, dead := x.rnd.IntN(ranks), new(atomic.Int32)
				dead.Store(-1)
				m := mortalMemory{new(remote), dead}
				for _, f := range x.all {
					f.ReadDirectly(m, f.processes)
				}
				x.run(func() bool {
					done := 0
					for _, n := range x.next[dies] {
						done += n
					}
					return done >= steps
				})
				dead.Store(int32(dies))
				x.survive(dies)
			})
		}
	}
}

// survive lets the ranks begin all calls, and do steps until they can do no more, when one has died.
func (x *directRun) survive(dead int) {
	failed := []int{dead}
	for r, f := range x.all {
		for i, c := range x.cases {
			if call := &c.plans[r].SharedCalls[0]; r != dead && call.number == 0 {
				f.Begin(call, uint64(i))
				f.Allocate(call)
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for r := range x.all {
			if slices.Contains(failed, r) {
				continue
			}
			for i := range x.cases {
				for !x.ended(r, i) && x.errs[r][i] == nil && x.step(r, i) {
					changed = true
				}
				if !x.ended(r, i) && (x.errs[r][i] != nil || slices.Contains(failed, x.waits[r][i])) {
					x.fail(r)
					failed, changed = append(failed, r), true
					break
				}
			}
		}
	}
	for r := range x.all {
		for i := range x.cases {
			if !slices.Contains(failed, r) && !x.ended(r, i) {
				x.t.Fatalf("seed %d: call %d of rank %d waits for %d at step %d", x.seed, i, r, x.waits[r][i], x.next[r][i])
			}
		}
	}
}

// fail makes all calls of a rank that are left fail, and overwrites their buffers.
func (x *directRun) fail(r int) {
	for i, c := range x.cases {
		if x.ended(r, i) {
			continue
		}
		call := &c.plans[r].SharedCalls[0]
		x.all[r].Fail(call)
		for _, b := range [][]byte{call.dst, call.src} {
			for j := range b {
				b[j] ^= 0x55
			}
		}
	}
}

// TestDirectFailed: a rank that copies from one whose call fails meanwhile does not end its call.
func TestDirectFailed(t *testing.T) {
	for range 20 {
		x := newDirectRun(t, 3, 0, 1)
		c := newCase(t, x.rnd, x.all, OfScatter, 50_000)
		root := c.plans[0].SharedCalls[0].Root
		for i := range 3 {
			r := mod(root+i, 3)
			call := &c.plans[r].SharedCalls[0]
			x.all[r].Begin(call, 1)
			x.all[r].Allocate(call)
			if _, done, err := x.all[r].Advance(call); !done || err != nil {
				t.Fatal(done, err)
			}
			for !x.all[r].Copy(call) {
			}
		}
		x.all[root].Fail(&c.plans[root].SharedCalls[0])
		reader := mod(root+1, 3)
		if r, done, err := x.all[reader].Advance(&c.plans[reader].SharedCalls[0]); r != root || done || err != nil {
			t.Errorf("waits for %d, done %v, %v", r, done, err)
		}
	}
}

// TestDirectFailedLater: a plan may fail after its call over shared memory has ended. The data of a later call in the same slot
// remains.
func TestDirectFailedLater(t *testing.T) {
	x := newDirectRun(t, 3, 0, 1)
	x.cases = append(x.cases, newCase(t, x.rnd, x.all, OfScatter, 50_000))
	for range immediateSlots - 1 {
		x.cases = append(x.cases, newCase(t, x.rnd, x.all, OfBarrier, 1))
	}
	x.cases = append(x.cases, newCase(t, x.rnd, x.all, OfAllgather, inlineBytes))
	root, last := x.cases[0].plans[0].SharedCalls[0].Root, immediateSlots
	for r, f := range x.all {
		x.next[r], x.waits[r], x.errs[r] = make([]int, last+1), make([]int, last+1), make([]error, last+1)
		for i, c := range x.cases {
			f.Begin(&c.plans[r].SharedCalls[0], uint64(i))
			f.Allocate(&c.plans[r].SharedCalls[0])
		}
	}
	for i := range last {
		for r := 0; !x.ended(0, i) || !x.ended(1, i) || !x.ended(2, i); r = mod(r+1, 3) {
			if !x.ended(r, i) {
				x.step(r, i)
			}
		}
	}
	if x.step(root, last) || x.all[root].posted != uint64(last+1) {
		t.Fatalf("the root has posted %d calls", x.all[root].posted)
	}
	x.all[root].Fail(&x.cases[0].plans[root].SharedCalls[0])
	x.step(mod(root+1, 3), last)
	if !x.step(mod(root+2, 3), last) { // compares the result
		t.Error("the last call does not end")
	}
}

// TestDirectDiffers: a rank that copies from another one whose call differs gets an error, whether its own is short or long.
func TestDirectDiffers(t *testing.T) {
	for _, n := range []int{8, 100_000} {
		all := newDirectImmediates(t, 3)
		var errs []error
		for r, length := range []int{200_000, n} {
			p := &Plan{}
			p.Reset(r, 3, nil)
			p.SetShared(&ShmImmediates{all[r]}, 0)
			if err := Scatter(p, make([]byte, length), make([]byte, 3*length), 0); err != nil {
				t.Fatal(err)
			}
			all[r].Begin(&p.SharedCalls[0], uint64(length))
			all[r].Allocate(&p.SharedCalls[0])
			_, _, err := all[r].Advance(&p.SharedCalls[0])
			errs = append(errs, err)
		}
		var d difference
		if err := errors.Join(errs...); !errors.As(err, &d) {
			t.Errorf("%d bytes: got %v", n, errs)
		}
	}
}

// TestForeignAnnounced: a reduction with an operation of the program uses messages, after a step that finds a rank whose
// operation is a predefined one.
func TestForeignAnnounced(t *testing.T) {
	for _, n := range []int{8, 100_000} {
		all, foreign := newDirectImmediates(t, 2), sumBytes
		foreign.Foreign = true
		var errs []error
		for r, op := range []*Operation{&sumBytes, &foreign} {
			p := &Plan{}
			p.Reset(r, 2, nil)
			p.SetShared(&ShmImmediates{all[r]}, 0)
			if err := Allreduce(p, make([]byte, n), make([]byte, n), op); err != nil || p.Steps[0].Kind != StepShared {
				t.Fatal(p.Steps, err)
			}
			if messages := slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Kind == StepSend }); messages != op.Foreign {
				t.Errorf("rank %d: messages %v", r, messages)
			}
			all[r].Begin(&p.SharedCalls[0], uint64(r))
			all[r].Allocate(&p.SharedCalls[0])
			_, _, err := all[r].Advance(&p.SharedCalls[0])
			errs = append(errs, err)
		}
		var d difference
		if err := errors.Join(errs...); !errors.As(err, &d) {
			t.Errorf("%d bytes: got %v", n, errs)
		}
	}
}
