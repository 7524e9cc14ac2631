package coll

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/internal/alloctest"
)

// drawNodes returns by rank a number of the node: with uneven or even nodes, whose ranks follow each other or do not.
func drawNodes(r *rand.Rand, ranks int) []int32 {
	of := make([]int32, ranks)
	nodes := 1 + r.IntN(ranks)
	for ranks%nodes != 0 {
		nodes--
	}
	kind, uneven := r.IntN(4), 1+r.IntN(ranks)
	for i := range of {
		switch kind {
		case 0:
			of[i] = int32(i * nodes / ranks)
		case 1:
			of[i] = int32(i % nodes)
		default:
			of[i] = int32(r.IntN(uneven))
		}
	}
	if kind == 2 {
		slices.Sort(of)
	}
	return of
}

// place distributes the ranks over nodes. Half of the time the ranks of nodes share memory, for immediate collectives if these
// are recorded.
func (m *matrix) place(t *testing.T, recorded bool) {
	t.Helper()
	m.shms, m.immediates, m.memory = make([]*Shm, m.n), make([]*ShmImmediates, m.n), 0
	if m.nodes = NewNodes(drawNodes(m.rand, m.n)); m.nodes == nil || m.rand.IntN(2) == 0 {
		return
	}
	m.memory = []Family{NodeMemory, OversubscribedNodes}[m.rand.IntN(2)]
	for _, ranks := range m.nodes.ranks {
		if recorded {
			m.shareImmediates(t, ranks)
			continue
		}
		if len(ranks) == 1 {
			continue
		}
		_, least := ShmBytes(len(ranks))
		shms, _ := newShms(t, len(ranks), least, m.memory == OversubscribedNodes)
		for i, r := range ranks {
			m.shms[r] = shms[i]
		}
	}
}

// shareImmediates makes the ranks of a node share memory for immediate collectives. Half of the time they can read each other's
// memory.
func (m *matrix) shareImmediates(t *testing.T, ranks []int32) {
	t.Helper()
	if len(ranks) == 1 {
		m.immediates[ranks[0]] = new(ShmImmediates)
		return
	}
	n := len(ranks)
	words, data := ShmImmediatesBytes(n, true)
	c := ShmImmediateConfig{
		Words: segment(words), Size: n, Oversubscribed: m.memory == OversubscribedNodes, Sync: gosched{new(atomic.Bool)},
	}
	c.Data, c.Allocate = sparse(t, data, 0)
	reader, direct := new(remote), m.rand.IntN(2) == 0
	for i, r := range ranks {
		c.Rank = i
		s, err := NewShmImmediates(c, true)
		if err != nil {
			t.Fatal(err)
		}
		if direct {
			s.ReadDirectly(reader, make([]uint64, n))
		}
		m.immediates[r] = s
	}
}

// levelsFor returns the levels of a Peer; nil if there is one level, or algorithms on two do not support the operation.
func levelsFor(p Peer, commutative bool) *Levels {
	l := p.Levels()
	if l != nil && !commutative && !l.consecutive {
		return nil
	}
	return l
}

// The algorithms on two levels. If there is only one level, they are the flat ones.

func twoLevelAllreduce(p Peer, dst, src []byte, op *Operation) error {
	if l := levelsFor(p, op.Commutative); l != nil {
		return allreduceTwoLevel(l, dst, src, op)
	}
	return Allreduce(p, dst, src, op)
}

func twoLevelParts(p Peer, dst, src []byte, op *Operation) error {
	if l := levelsFor(p, op.Commutative); l != nil && l.even {
		return allreduceTwoLevelParts(l, dst, src, op)
	}
	return Allreduce(p, dst, src, op)
}

func twoLevelReduce(p Peer, dst, src []byte, op *Operation, root int) error {
	if l := levelsFor(p, op.Commutative); l != nil {
		return reduceTwoLevel(p, l, dst, src, op, root)
	}
	return Reduce(p, dst, src, op, root)
}

func twoLevelBcast(p Peer, buf []byte, root int) error {
	if l := levelsFor(p, true); l != nil {
		return bcastTwoLevel(l, buf, root)
	}
	return Bcast(p, buf, root)
}

func twoLevelBarrier(p Peer) error {
	if l := levelsFor(p, true); l != nil {
		return barrierTwoLevel(p, l)
	}
	return Barrier(p)
}

func twoLevelGather(p Peer, dst, src []byte, root, n int) error {
	if l := levelsFor(p, true); l != nil {
		return gatherTwoLevel(p, l, dst, src, root, n)
	}
	return Gather(p, dst, src, root)
}

func twoLevelAllgather(p Peer, dst, src []byte, n int) error {
	if l := levelsFor(p, true); l != nil {
		return allgatherTwoLevel(p, l, dst, src, n)
	}
	return Allgather(p, dst, src)
}

// TestNewNodes: the distribution has every rank once, in order, and says what it is like.
func TestNewNodes(t *testing.T) {
	for _, c := range []struct {
		of                []int32
		ranks             [][]int32
		even, consecutive bool
	}{
		{[]int32{5, 5, 2, 2}, [][]int32{{0, 1}, {2, 3}}, true, true},
		{[]int32{0, 1, 0, 1}, [][]int32{{0, 2}, {1, 3}}, true, false},
		{[]int32{3, 1, 1}, [][]int32{{0}, {1, 2}}, false, true},
		{[]int32{1, 0, 0, 1, 1}, [][]int32{{0, 3, 4}, {1, 2}}, false, false},
	} {
		n := NewNodes(c.of)
		if !reflect.DeepEqual(n.ranks, c.ranks) || n.even != c.even || n.consecutive != c.consecutive {
			t.Errorf("%v: %+v", c.of, n)
		}
		for r := range c.of {
			if k := n.node[r]; n.ranks[k][n.index[r]] != int32(r) || !slices.Equal(n.Beside(r), n.ranks[k]) {
				t.Errorf("%v: rank %d is not at its place in %+v", c.of, r, n)
			}
		}
		if int(n.first[1]) != len(n.ranks[0]) {
			t.Errorf("%v: %d ranks before the second node", c.of, n.first[1])
		}
	}
	for _, of := range [][]int32{{7}, {4, 4, 4}, {0, 1, 2}} {
		if n := NewNodes(of); n != nil {
			t.Errorf("%v: two levels: %+v", of, n)
		}
	}
}

// TestLevelsFamily: each algorithm is used only where it is possible, and rules for shared memory only where ranks have it.
func TestLevelsFamily(t *testing.T) {
	var none *Levels
	for _, c := range []struct {
		l           *Levels
		two, parts  bool
		sharedRules bool
	}{
		{none, false, false, false},
		{&Levels{Nodes: NewNodes([]int32{0, 0, 1})}, true, false, false},
		{&Levels{Nodes: NewNodes([]int32{0, 0, 1, 1})}, true, true, false},
		{&Levels{Nodes: NewNodes([]int32{0, 0, 1}), Memory: NodeMemory}, true, false, true},
		{&Levels{Nodes: NewNodes([]int32{0, 0, 1}), Memory: OversubscribedNodes}, true, false, true},
	} {
		f := c.l.family()
		for a, want := range map[Algorithm]bool{TwoLevel: c.two, TwoLevelParts: c.parts, Ring: true, SharedMemory: false} {
			if got := a.family()&^f == 0; got != want {
				t.Errorf("%+v: %v is possible: %v", c.l, a, got)
			}
		}
		if got := (&Rule{Algorithm: TwoLevel, Needs: NodeMemory}).family()&^f == 0; got != c.sharedRules {
			t.Errorf("%+v: rules for shared memory: %v", c.l, got)
		}
	}
}

// TestLevelsReductions: an operation that is not commutative is not combined node by node unless the ranks of nodes follow each
// other, and elements that are longer than a slot are not reduced in shared memory.
func TestLevelsReductions(t *testing.T) {
	table := &Table{Rules: []Rule{{Collective: OfAllreduce, Algorithm: TwoLevel, MaxBytes: always}}}
	for _, c := range []struct {
		of          []int32
		commutative bool
		elem        int
		shared      bool
		want        bool
	}{
		{[]int32{0, 0, 1, 1}, false, 8, true, true},
		{[]int32{0, 1, 0, 1}, false, 8, true, false},
		{[]int32{0, 1, 0, 1}, true, 8, true, true},
		{[]int32{0, 0, 1, 1}, true, MaxSharedElement + 1, true, false},
		{[]int32{0, 0, 1, 1}, true, MaxSharedElement + 1, false, true},
	} {
		p := &leveledPeer{noopPeer: noopPeer{ranks: len(c.of)}, table: table}
		p.levels.Init(p, NewNodes(c.of))
		if c.shared {
			p.levels.Memory = NodeMemory
		}
		a := selectReduction(p, OfAllreduce, 8, &Operation{ElemSize: c.elem, Commutative: c.commutative})
		if (a == TwoLevel) != c.want {
			t.Errorf("%+v: %v", c, a)
		}
	}
}

// leveledPeer is a noopPeer with nodes and a table.
type leveledPeer struct {
	noopPeer
	levels Levels
	table  *Table
}

func (p *leveledPeer) Levels() *Levels { return &p.levels }
func (p *leveledPeer) Table() *Table   { return p.table }

// TestLevelsAllocs wants no collective on two levels to allocate, with messages or with shared memory within nodes.
func TestLevelsAllocs(t *testing.T) {
	const ranks = 6
	op := add()
	buf, out := make([]byte, 1<<20), make([]byte, 1<<20)
	var table Table
	for _, of := range [][]int32{{0, 0, 0, 1, 1, 1}, {0, 1, 0, 1, 0, 1}, {0, 1, 1, 1, 1, 2}} {
		p := &leveledPeer{noopPeer: noopPeer{ranks: ranks, scratch: make([]byte, 8<<20)}, table: &table}
		p.levels.Init(p, NewNodes(of))
		for _, shared := range []bool{false, true} {
			if k := len(p.levels.Beside(0)); shared && k > 1 {
				p.levels.Memory, p.levels.Shm = NodeMemory, aloneInShm(t, k)
			}
			for _, a := range []Algorithm{TwoLevel, TwoLevelParts} {
				if a.family()&^p.levels.family() != 0 {
					continue
				}
				table.Rules = nil
				for c := OfBarrier; c <= OfReduceScatter; c++ {
					if slices.Contains(Candidates(c), a) {
						table.Rules = append(table.Rules, Rule{Collective: c, Algorithm: a, MaxBytes: always})
					}
				}
				for _, n := range []int{8, 30000} {
					for name, call := range map[string]func() error{
						"Barrier":   func() error { return Barrier(p) },
						"Bcast":     func() error { return Bcast(p, buf[:n], 0) },
						"Reduce":    func() error { return Reduce(p, out, buf[:n], op, 0) },
						"Allreduce": func() error { return Allreduce(p, out, buf[:n], op) },
						"Gather":    func() error { return Gather(p, out[:n*ranks], buf[:n], 0) },
						"Allgather": func() error { return Allgather(p, out[:n*ranks], buf[:n]) },
					} {
						if got := alloctest.Count(5, func() {
							p.used = 0
							if err := call(); err != nil {
								t.Fatal(name, err)
							}
						}); got != 0 {
							t.Errorf("%s of %d bytes by %v on %v, shared %v, allocates %v times", name, n, a, of, shared, got)
						}
					}
				}
			}
		}
	}
}

// ready says that every word has been reached.
type ready struct{ gosched }

func (ready) WaitAtLeast(int, *uint64, uint64) error { return nil }

func (ready) Differ(int, uint64, uint64) error { return nil }

// aloneInShm returns the Shm of rank 0 of a node whose other ranks do nothing.
func aloneInShm(t *testing.T, ranks int) *Shm {
	t.Helper()
	_, least := ShmBytes(ranks)
	f, err := NewShm(ShmConfig{Mem: segment(least), Size: ranks, Cores: ranks, Sync: ready{gosched{new(atomic.Bool)}}})
	if err != nil {
		t.Fatal(err)
	}
	return f
}
