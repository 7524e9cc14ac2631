package coll

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
)

// matrix joins ranks of one process: a queue for each pair. Short messages are copied when they are sent; long ones
// wait until they are received, so that an algorithm that counts on a Send not to wait hangs here.
type matrix struct {
	n     int
	rand  *rand.Rand
	eager int              // the longest message that is short, drawn for each run
	calls bool             // algorithms are always called, and never recorded as a Plan
	queue [][]chan message // [from][to]
	plans []Plan           // of the ranks, used again and again
	// nodes, and what ranks share there, are drawn for each run.
	nodes      *Nodes
	shms       []*Shm           // by rank
	immediates []*ShmImmediates // by rank, for recorded runs
	memory     Family
}

type message struct {
	data []byte
	done chan struct{} // closed when data may be reused; nil if it was copied
}

func newMatrix(n int, r *rand.Rand) *matrix {
	m := &matrix{n: n, rand: r, queue: make([][]chan message, n), plans: make([]Plan, n)}
	for i := range m.queue {
		m.queue[i] = make([]chan message, n)
		for j := range m.queue[i] {
			m.queue[i][j] = make(chan message, 64)
		}
	}
	return m
}

// node is one rank of a matrix.
type node struct {
	Local
	m     *matrix
	rank  int
	begun []begun

	levels Levels
}

// begun is an Isend or Irecv: a message on its way, or the place for one.
type begun struct {
	sent *message
	from int
	room []byte
}

func (p *node) Rank() int { return p.rank }
func (p *node) Size() int { return p.m.n }

func (p *node) Levels() *Levels {
	if p.levels.Nodes == nil {
		return nil
	}
	return &p.levels
}

func (p *node) post(dst int, b []byte) (message, error) {
	if dst == p.rank || dst < 0 || dst >= p.m.n {
		return message{}, fmt.Errorf("rank %d sends to %d of %d", p.rank, dst, p.m.n)
	}
	msg := message{data: b}
	if len(b) <= p.m.eager {
		msg.data = append([]byte(nil), b...)
	} else {
		msg.done = make(chan struct{})
	}
	p.m.queue[p.rank][dst] <- msg
	return msg, nil
}

func (m message) wait() {
	if m.done != nil {
		<-m.done
	}
}

func (p *node) Send(dst int, b []byte) error {
	msg, err := p.post(dst, b)
	msg.wait()
	return err
}

func (p *node) Recv(src int, b []byte) error {
	if src == p.rank || src < 0 || src >= p.m.n {
		return fmt.Errorf("rank %d receives from %d of %d", p.rank, src, p.m.n)
	}
	msg := <-p.m.queue[src][p.rank]
	if len(msg.data) != len(b) {
		return fmt.Errorf("rank %d has room for %d bytes and gets %d from %d", p.rank, len(b), len(msg.data), src)
	}
	copy(b, msg.data)
	if msg.done != nil {
		close(msg.done)
	}
	return nil
}

func (p *node) Sendrecv(dst int, s []byte, src int, r []byte) error {
	msg, err := p.post(dst, s)
	if err != nil {
		return err
	}
	err = p.Recv(src, r)
	msg.wait()
	return err
}

func (p *node) Isend(dst int, b []byte) (Handle, error) {
	msg, err := p.post(dst, b)
	p.begun = append(p.begun, begun{sent: &msg})
	return Handle{A: uint64(len(p.begun) - 1), B: 77}, err
}

func (p *node) Irecv(src int, b []byte) (Handle, error) {
	p.begun = append(p.begun, begun{from: src, room: b})
	return Handle{A: uint64(len(p.begun) - 1), B: 77}, nil
}

// Waitall receives first, in the order in which that was begun, so that others go on.
func (p *node) Waitall(hs []Handle) error {
	for _, h := range hs {
		if h.B != 77 {
			return fmt.Errorf("rank %d waits for %v, which is not a handle", p.rank, h)
		}
		if b := p.begun[h.A]; b.sent == nil {
			if err := p.Recv(b.from, b.room); err != nil {
				return err
			}
		}
	}
	for _, h := range hs {
		if b := p.begun[h.A]; b.sent != nil {
			b.sent.wait()
		}
	}
	return nil
}

// Cancel is not needed: no run ends with an error.
func (p *node) Cancel([]Handle) {}

func (p *node) Scratch(n int) []byte {
	return bytes.Repeat([]byte{0xee}, n)
}

// follow does the steps of a plan.
func (p *node) follow(plan *Plan) error {
	var hs []Handle
	for i := range plan.SharedCalls {
		if x := &plan.SharedCalls[i]; x.Used() {
			plan.Shared(i).Begin(x, uint64(x.Collective))
			plan.Shared(i).Allocate(x)
		}
	}
	for i := range plan.Steps {
		s := &plan.Steps[i]
		var h Handle
		var err error
		switch s.Kind {
		case StepSend:
			h, err = p.Isend(s.Peer, s.A)
			hs = append(hs, h)
		case StepRecv:
			h, err = p.Irecv(s.Peer, s.Dst)
			hs = append(hs, h)
		case StepWait:
			err = p.Waitall(hs)
			hs = hs[:0]
		case StepShared:
			for done := false; !done && err == nil; runtime.Gosched() {
				_, done, err = plan.Shared(s.Peer).Advance(&plan.SharedCalls[s.Peer])
			}
		case StepDirect:
			for done := false; !done; {
				done = plan.Shared(s.Peer).Copy(&plan.SharedCalls[s.Peer])
			}
		default:
			plan.Do(s)
		}
		if err != nil {
			return err
		}
	}
	return p.Waitall(hs)
}

// run calls f for each rank at once, and checks that no message is left when all have returned. Half of the runs record f as a
// Plan first, and then do its steps.
func (m *matrix) run(t *testing.T, f func(p Peer) error) {
	t.Helper()
	m.eager = []int{-1, 64, 1 << 30}[m.rand.IntN(3)]
	errs := make([]error, m.n)
	var all sync.WaitGroup
	recorded := !m.calls && m.rand.IntN(2) == 0
	m.place(t, recorded)
	for r := range m.n {
		all.Go(func() {
			p := &node{m: m, rank: r}
			p.levels.Init(p, m.nodes)
			p.levels.Shm, p.levels.Memory = m.shms[r], m.memory
			if !recorded {
				errs[r] = f(p)
				return
			}
			plan := &m.plans[r]
			plan.Reset(r, m.n, nil)
			plan.SetNodes(m.nodes)
			if m.memory != 0 {
				plan.SetShared(m.immediates[r], m.memory)
			}
			if errs[r] = f(plan); errs[r] == nil {
				errs[r] = p.follow(plan)
			}
		})
	}
	all.Wait()
	for r, err := range errs {
		if err != nil {
			t.Fatalf("rank %d of %d: %v", r, m.n, err)
		}
	}
	for from, row := range m.queue {
		for to, q := range row {
			if len(q) > 0 {
				t.Fatalf("of %d ranks, %d sent %d messages that %d did not receive", m.n, from, len(q), to)
			}
		}
	}
}

// each runs f for 1 to 8 ranks, but 6; with IBRUN_SOAK=1 for 1 to 9. Of 5 and of 7 ranks, one and several are more than a power
// of two. At each turn it is drawn up to which length messages do not wait: for most, some or none.
func each(t *testing.T, f func(t *testing.T, m *matrix, r *rand.Rand)) {
	for _, n := range soaktest.Choose([]int{1, 2, 3, 4, 5, 6, 7, 8, 9}, []int{1, 2, 3, 4, 5, 7, 8}) {
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(n), 7))
			f(t, newMatrix(n, r), r)
		})
	}
}

// someRoots returns the first, a middle and the last of n ranks; with IBRUN_SOAK=1 all of them.
func someRoots(n int) []int {
	roots := make([]int, n)
	for i := range roots {
		roots[i] = i
	}
	return soaktest.Sample(roots, 3)
}
