package simulate

import (
	"errors"
	"fmt"
	"iter"

	"github.com/ibrun/ibrun/mpi/internal/coll"
)

// world is a simulation. Ranks are coroutines: only one runs at a time, that with the earliest clock of those that do not wait.
type world struct {
	links   *Links
	model   *Model
	perNode int
	ranks   []*rank
	cores   [][]float64 // by node, from when on each core is free; nil: every rank has its own
	ready   readyHeap
	queues  []*queue // that are not in use
}

// rank is a simulated rank. It implements coll.Peer. Its clock and all other times are in ns.
type rank struct {
	w       *world
	id      int
	now     float64
	busy    float64 // until when it handles messages that have arrived
	owed    float64 // how long it has to handle messages that have arrived, if ranks share cores
	resume  func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool
	err     error
	ended   bool
	queues  map[int32]*queue // by source
	ops     []operation
	open    int // number of operations that no Waitall has collected
	waiting int // number of operations that it waits for
	levels  coll.Levels

	scratch  []byte
	used     int
	messages int
	bytes    int64
}

// operation is a send or receive of a rank.
type operation struct {
	done     float64 // when it has completed
	complete bool
	awaited  bool
}

// queue has the messages from one rank to another that are not matched, or the receives.
type queue struct {
	sent   []message
	posted []receive
}

// message is a message that has been sent. An eager one has arrived when it says; a long one is moved when it is matched.
type message struct {
	from  *rank
	data  []byte
	op    int // index of the operation of the sender
	at    float64
	eager bool
}

// receive is a receive that no message has matched.
type receive struct {
	buf []byte
	op  int
	at  float64
}

// readyHeap has the ranks that can run, and their clocks: a binary heap with the earliest clock first, then the lowest number.
type readyHeap []readyRank

type readyRank struct {
	now float64
	id  int
}

func (x readyRank) before(y readyRank) bool { return x.now < y.now || x.now == y.now && x.id < y.id }

func (h *readyHeap) push(r *rank) {
	x := readyRank{r.now, r.id}
	*h = append(*h, x)
	i := len(*h) - 1
	for i > 0 && x.before((*h)[(i-1)/2]) {
		(*h)[i] = (*h)[(i-1)/2]
		i = (i - 1) / 2
	}
	(*h)[i] = x
}

// pop removes the first rank and returns its number.
func (h *readyHeap) pop() int {
	s := *h
	first, x := s[0].id, s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	i := 0
	for {
		child := 2*i + 1
		if child+1 < len(s) && s[child+1].before(s[child]) {
			child++
		}
		if child >= len(s) || !s[child].before(x) {
			break
		}
		s[i] = s[child]
		i = child
	}
	if len(s) != 0 {
		s[i] = x
	}
	return first
}

var (
	errStopped  = errors.New("simulate: the simulation has been stopped")
	errDeadlock = errors.New("simulate: ranks wait for messages that nobody sends")
)

// run runs f at every rank, until all have returned.
func run(cfg *Config, f func(p coll.Peer) error) (*world, error) {
	nodeOf := nodesOf(cfg.Ranks, cfg.RanksPerNode)
	links, err := NewLinks(cfg.Model, nodeOf)
	if err != nil {
		return nil, err
	}
	w := &world{links: links, model: links.Model(), perNode: cfg.RanksPerNode}
	if cfg.Cores != 0 {
		for range nodeOf[cfg.Ranks-1] + 1 {
			w.cores = append(w.cores, make([]float64, cfg.Cores))
		}
	}
	nodes := collNodes(nodeOf)
	for i := range cfg.Ranks {
		r := &rank{w: w, id: i, queues: map[int32]*queue{}}
		r.levels.Init(r, nodes)
		r.resume, r.stop = iter.Pull(func(yield func(struct{}) bool) {
			r.yield = yield
			r.err = f(r)
			r.ended = true
		})
		w.ranks = append(w.ranks, r)
		w.ready.push(r)
	}
	for len(w.ready) != 0 {
		w.ranks[w.ready.pop()].resume()
	}
	for _, r := range w.ranks {
		if !r.ended && err == nil {
			err = fmt.Errorf("%w: rank %d at %.0f ns", errDeadlock, r.id, r.now)
		}
		r.stop()
		if r.err != nil && !errors.Is(r.err, errStopped) {
			return w, fmt.Errorf("rank %d: %w", r.id, r.err)
		}
	}
	return w, err
}

// nodesOf returns the node of each rank: they are distributed one after another.
func nodesOf(ranks, perNode int) []int {
	of := make([]int, ranks)
	for i := range of {
		of[i] = i / perNode
	}
	return of
}

func collNodes(nodeOf []int) *coll.Nodes {
	of := make([]int32, len(nodeOf))
	for i, n := range nodeOf {
		of[i] = int32(n)
	}
	return coll.NewNodes(of)
}

// turn returns when no other rank that can run has an earlier clock. It returns an error if the simulation has been stopped.
func (r *rank) turn() error {
	if len(r.w.ready) == 0 || r.w.ready[0].now >= r.now {
		return nil
	}
	r.w.ready.push(r)
	return r.sleep()
}

// sleep lets other ranks run until this one is taken from the heap.
func (r *rank) sleep() error {
	if !r.yield(struct{}{}) {
		return errStopped
	}
	return nil
}

// queueFrom returns the queue from a rank.
func (r *rank) queueFrom(src int) *queue {
	q := r.queues[int32(src)]
	if q == nil {
		if n := len(r.w.queues); n != 0 {
			q, r.w.queues = r.w.queues[n-1], r.w.queues[:n-1]
		} else {
			q = new(queue)
		}
		r.queues[int32(src)] = q
	}
	return q
}

// takeFirst removes the first element of a list of the queue from a rank, and the queue if it is empty.
func takeFirst[E any](r *rank, src int, q *queue, list *[]E) E {
	x := (*list)[0]
	n := copy(*list, (*list)[1:])
	clear((*list)[n:])
	*list = (*list)[:n]
	if len(q.sent)+len(q.posted) == 0 {
		delete(r.queues, int32(src))
		r.w.queues = append(r.w.queues, q)
	}
	return x
}

// newOp returns the number of an operation in progress.
func (r *rank) newOp() int {
	r.ops = append(r.ops, operation{})
	r.open++
	return len(r.ops) - 1
}

// complete completes an operation at a time. The rank runs again when all that it waits for have completed.
func (r *rank) complete(op int, at float64) {
	o := &r.ops[op]
	o.done, o.complete = at, true
	if !o.awaited {
		return
	}
	r.now = max(r.now, at)
	if r.waiting--; r.waiting == 0 {
		r.w.ready.push(r)
	}
}

// match moves a message to the receive of a rank.
func (r *rank) match(m message, q receive) error {
	if len(m.data) != len(q.buf) {
		return fmt.Errorf("rank %d sends %d bytes to rank %d, which expects %d", m.from.id, len(m.data), r.id, len(q.buf))
	}
	copy(q.buf, m.data)
	l := r.w.links.Between(m.from.id, r.id)
	if m.eager {
		r.received(q.op, max(m.at, q.at), l)
		return nil
	}
	start := max(m.at+float64(l.Latency), q.at) + float64(l.Latency) // the announcement, and the answer
	left, arrived := r.w.links.Transfer(m.from.id, r.id, len(m.data), start)
	m.from.complete(m.op, left)
	r.received(q.op, arrived, l)
	return nil
}

// work occupies a core of the rank's node for some time from now on.
func (r *rank) work(took float64) {
	if r.w.cores == nil {
		r.now += took
		return
	}
	cores := r.w.cores[r.id/r.w.perNode]
	first := 0
	for i, free := range cores {
		if free < cores[first] {
			first = i
		}
	}
	cores[first] = max(cores[first], r.now) + took
	r.now = cores[first]
}

// received completes a receive whose message has arrived. A rank handles one message at a time. If it shares cores, it does so
// when it waits for the message: before that it has no core.
func (r *rank) received(op int, at float64, l *Link) {
	if r.w.cores != nil {
		r.owed += float64(l.Overhead)
		r.complete(op, at)
		return
	}
	r.busy = max(r.busy, at) + float64(l.Overhead)
	r.complete(op, r.busy)
}

// Rank returns the number of the rank.
func (r *rank) Rank() int { return r.id }

// Size returns the number of ranks.
func (r *rank) Size() int { return len(r.w.ranks) }

// Isend starts a send.
func (r *rank) Isend(dst int, b []byte) (coll.Handle, error) {
	if err := r.turn(); err != nil {
		return coll.Handle{}, err
	}
	to := r.w.ranks[dst]
	r.work(float64(r.w.links.Between(r.id, dst).Overhead))
	r.messages++
	r.bytes += int64(len(b))
	m := message{from: r, data: b, op: r.newOp(), at: r.now, eager: len(b) <= r.w.model.Eager}
	h := coll.Handle{A: uint64(m.op)}
	if m.eager {
		_, m.at = r.w.links.Transfer(r.id, dst, len(b), r.now)
		r.complete(m.op, r.now)
	}
	q := to.queueFrom(r.id)
	if len(q.posted) != 0 {
		return h, to.match(m, takeFirst(to, r.id, q, &q.posted))
	}
	if m.eager {
		m.data = append([]byte(nil), b...)
	}
	q.sent = append(q.sent, m)
	return h, nil
}

// Irecv starts a receive.
func (r *rank) Irecv(src int, b []byte) (coll.Handle, error) {
	if err := r.turn(); err != nil {
		return coll.Handle{}, err
	}
	q, x := r.queueFrom(src), receive{b, r.newOp(), r.now}
	h := coll.Handle{A: uint64(x.op)}
	if len(q.sent) != 0 {
		return h, r.match(takeFirst(r, src, q, &q.sent), x)
	}
	q.posted = append(q.posted, x)
	return h, nil
}

// Waitall waits for operations.
func (r *rank) Waitall(hs []coll.Handle) error {
	for _, h := range hs {
		o := &r.ops[h.A]
		if o.complete {
			r.now = max(r.now, o.done)
		} else {
			o.awaited = true
			r.waiting++
		}
	}
	if r.waiting != 0 {
		if err := r.sleep(); err != nil {
			return err
		}
	}
	if r.owed != 0 {
		if err := r.turn(); err != nil {
			return err
		}
		r.work(r.owed)
		r.owed = 0
	}
	if r.open -= len(hs); r.open == 0 {
		r.ops = r.ops[:0]
	}
	return nil
}

// Cancel does nothing: after an error the simulation ends.
func (r *rank) Cancel([]coll.Handle) {}

// Send sends b.
func (r *rank) Send(dst int, b []byte) error {
	h, err := r.Isend(dst, b)
	if err != nil {
		return err
	}
	return r.Waitall([]coll.Handle{h})
}

// Recv receives b.
func (r *rank) Recv(src int, b []byte) error {
	h, err := r.Irecv(src, b)
	if err != nil {
		return err
	}
	return r.Waitall([]coll.Handle{h})
}

// Sendrecv sends s and receives b at the same time.
func (r *rank) Sendrecv(dst int, s []byte, src int, b []byte) error {
	in, err := r.Irecv(src, b)
	if err != nil {
		return err
	}
	out, err := r.Isend(dst, s)
	if err != nil {
		return err
	}
	return r.Waitall([]coll.Handle{in, out})
}

// Scratch returns memory that is valid until the end of the simulation.
func (r *rank) Scratch(n int) []byte {
	if len(r.scratch)-r.used < n {
		r.scratch, r.used = make([]byte, max(n, 1024)), 0
	}
	b := r.scratch[r.used : r.used+n : r.used+n]
	r.used = min((r.used+n+15)&^15, len(r.scratch))
	return b
}

// Copy copies.
func (r *rank) Copy(dst, src []byte) {
	r.work(nanoseconds(copy(dst, src), r.w.model.Copy))
}

// Combine combines.
func (r *rank) Combine(op *coll.Operation, dst, a, b []byte) {
	op.Kernel(dst, a, b)
	r.work(nanoseconds(len(dst), r.w.model.Reduce))
}

// Table returns nil: the algorithm is given.
func (r *rank) Table() *coll.Table { return nil }

// Levels returns the nodes of the ranks; nil if algorithms on two levels make no difference.
func (r *rank) Levels() *coll.Levels {
	if r.levels.Nodes == nil {
		return nil
	}
	return &r.levels
}

// Call calls f, which takes no simulated time.
func (r *rank) Call(f func()) { f() }
