package bench

import (
	"fmt"
	"time"

	"github.com/ibrun/ibrun/internal/ticks"
	"github.com/ibrun/ibrun/mpi"
)

const floatBytes = 4

// runner measures one operation at one rank. It is made once; only size and the fields that depend on it change between
// sizes. Only one goroutine may use it.
type runner struct {
	comm        *mpi.Comm
	rank, ranks int
	window      int
	call        func(r *runner) error
	reqs        []mpi.Request // two windows

	size                         int
	send, recv                   []byte    // for the largest size; of all operations but reductions
	sendFloatsMax, recvFloatsMax []float32 // for the largest size; of reductions
	sendFloats, recvFloats       []float32 // the parts of them that belong to size
	counts, displs               []int     // per rank, in elements
	windowBuffer                 []byte    // the messages of a window that are written before it; see Config.Written
	message                      message   // of an operation with a derived datatype

	computed       uint64 // by compute, so that it is not optimised away
	clockStart     time.Time
	iterationTimes []time.Duration // per measured iteration; nil unless percentiles are wanted
	firstTick      uint64          // ticks at the start of the first measured iteration, or 0
	lastTick       uint64          // ticks at the end of the last one
}

// prepare checks the arguments. It returns a runner, the operation with the loop that the configuration asks for, and the
// configuration with all defaults filled in.
func prepare(c *mpi.Comm, op Op, cfg Config) (*runner, Op, Config, error) {
	if op.loop == nil {
		return nil, op, cfg, fmt.Errorf("bench: %q is not an operation of this package", op.Name)
	}
	if err := op.CheckRanks(c.Size()); err != nil {
		return nil, op, cfg, err
	}
	cfg, err := cfg.withDefaults(op, c.Size())
	if err != nil {
		return nil, op, cfg, err
	}
	if cfg.Written {
		op.loop = op.writtenLoop
	}
	return newRunner(c, op, cfg), op, cfg, nil
}

// newRunner allocates and touches the buffers for op up to the largest size.
func newRunner(c *mpi.Comm, op Op, cfg Config) *runner {
	r := &runner{
		comm: c, rank: c.Rank(), ranks: c.Size(),
		window: cfg.Window, reqs: make([]mpi.Request, 2*cfg.Window),
		call: op.call, clockStart: time.Now(),
	}
	r.counts, r.displs = make([]int, r.ranks), make([]int, r.ranks)
	largest := ackBytes
	for _, size := range cfg.Sizes {
		largest = max(largest, size)
	}
	if op.Derived() {
		return r // resize makes the buffers
	}
	if op.kind == reduction {
		r.sendFloatsMax = pageAligned[float32](largest/floatBytes, 1)
		r.recvFloatsMax = pageAligned[float32](largest/floatBytes, 2)
		return r
	}
	r.send = pageAligned[byte](largest*op.send.count(r.ranks), 1)
	r.recv = r.send
	if !op.sharedBuffer {
		r.recv = pageAligned[byte](largest*op.recv.count(r.ranks), 2)
	}
	return r
}

func (b blocks) count(ranks int) int {
	if b == onePerRank {
		return ranks
	}
	return 1
}

// resize prepares for messages of size bytes.
func (r *runner) resize(op Op, size int) (err error) {
	r.size = size
	if op.Derived() {
		r.message, err = op.newMessage(size)
		return err
	}
	if op.kind != reduction {
		for i := range r.counts {
			r.counts[i], r.displs[i] = size, i*size
		}
		return nil
	}
	n := size / floatBytes
	r.sendFloats, r.recvFloats = r.sendFloatsMax[:n], r.recvFloatsMax[:n]
	at := 0
	for i := range r.counts {
		r.counts[i], r.displs[i] = n/r.ranks, at
		if i < n%r.ranks {
			r.counts[i]++
		}
		at += r.counts[i]
	}
	return nil
}

// now reads the clock of this rank. time.Since reads the monotonic clock alone, half the cost of time.Now.
func (r *runner) now() time.Duration { return time.Since(r.clockStart) }

// startClock reads the clock at the start of the measured iterations.
func (r *runner) startClock() time.Duration {
	if r.iterationTimes != nil {
		r.firstTick = ticks.Now()
		r.lastTick = r.firstTick
	}
	return r.now()
}

// markIteration records the end of iteration i, if iterations are recorded. It uses ticks, because reading the clock may take
// longer than the iteration.
func (r *runner) markIteration(i int) {
	if r.iterationTimes == nil || i < 0 {
		return
	}
	now := ticks.Now()
	r.iterationTimes[i] = time.Duration(now - r.lastTick)
	r.lastTick = now
}

// ticksToTimes converts the recorded ticks to time, given the time of all iterations.
func (r *runner) ticksToTimes(all time.Duration) {
	if r.iterationTimes == nil || r.lastTick == r.firstTick {
		return
	}
	tick := float64(all) / float64(r.lastTick-r.firstTick)
	for i, lap := range r.iterationTimes {
		r.iterationTimes[i] = time.Duration(float64(lap) * tick)
	}
}

// recordTime records the time of iteration i, if iterations are recorded.
func (r *runner) recordTime(i int, took time.Duration) {
	if r.iterationTimes != nil {
		r.iterationTimes[i] = took
	}
}
