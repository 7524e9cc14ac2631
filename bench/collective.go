package bench

import (
	"time"

	"github.com/ibrun/ibrun/mpi"
)

// The collective loops and calls. Each has a counterpart of the same shape in testdata/peer.c.

// timeWholeLoop is the loop of the barrier. Barriers follow each other directly, so the clock is read once around all of them.
func (r *runner) timeWholeLoop(skip, n int) (time.Duration, error) {
	var start time.Duration
	for i := -skip; i < n; i++ {
		if i == 0 {
			start = r.startClock()
		}
		if err := r.call(r); err != nil {
			return 0, err
		}
		r.markIteration(i)
	}
	return r.now() - start, nil
}

// timeEachCall is the loop of every other collective. It measures each call separately, with a barrier after it that is
// not counted. Without the barrier the root of a broadcast would run ahead, and the figure would be a rate and
// not a time.
func (r *runner) timeEachCall(skip, n int) (time.Duration, error) {
	var sum time.Duration
	for i := -skip; i < n; i++ {
		start := r.now()
		if err := r.call(r); err != nil {
			return 0, err
		}
		if took := r.now() - start; i >= 0 {
			sum += took
			r.recordTime(i, took)
		}
		if err := r.comm.Barrier(); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

const root = 0

func (r *runner) barrier() error { return r.comm.Barrier() }
func (r *runner) bcast() error   { return mpi.Bcast(r.comm, r.send[:r.size], root) }

func (r *runner) reduce() error {
	return mpi.Reduce(r.comm, r.recvFloats, r.sendFloats, mpi.Sum, root)
}

func (r *runner) allreduce() error {
	return mpi.Allreduce(r.comm, r.recvFloats, r.sendFloats, mpi.Sum)
}

func (r *runner) reduceScatter() error {
	return mpi.ReduceScatter(r.comm, r.recvFloats[:r.counts[r.rank]], r.sendFloats, r.counts, mpi.Sum)
}

func (r *runner) scan() error   { return mpi.Scan(r.comm, r.recvFloats, r.sendFloats, mpi.Sum) }
func (r *runner) exscan() error { return mpi.Exscan(r.comm, r.recvFloats, r.sendFloats, mpi.Sum) }

func (r *runner) gather() error {
	return mpi.Gather(r.comm, r.rootOnly(r.recv[:r.size*r.ranks]), r.send[:r.size], root)
}

func (r *runner) scatter() error {
	return mpi.Scatter(r.comm, r.recv[:r.size], r.rootOnly(r.send[:r.size*r.ranks]), root)
}

func (r *runner) allgather() error {
	return mpi.Allgather(r.comm, r.recv[:r.size*r.ranks], r.send[:r.size])
}

func (r *runner) alltoall() error {
	return mpi.Alltoall(r.comm, r.recv[:r.size*r.ranks], r.send[:r.size*r.ranks])
}

func (r *runner) gatherv() error {
	return mpi.Gatherv(r.comm, r.rootOnly(r.recv[:r.size*r.ranks]), r.counts, r.displs, r.send[:r.size], root)
}

func (r *runner) scatterv() error {
	return mpi.Scatterv(r.comm, r.recv[:r.size], r.rootOnly(r.send[:r.size*r.ranks]), r.counts, r.displs, root)
}

func (r *runner) allgatherv() error {
	return mpi.Allgatherv(r.comm, r.recv[:r.size*r.ranks], r.counts, r.displs, r.send[:r.size])
}

func (r *runner) alltoallv() error {
	n := r.size * r.ranks
	return mpi.Alltoallv(r.comm, r.recv[:n], r.counts, r.displs, r.send[:n], r.counts, r.displs)
}

// rootOnly returns the buffer at the root, and nil at other ranks.
func (r *runner) rootOnly(b []byte) []byte {
	if r.rank != root {
		return nil
	}
	return b
}
