package bench

import (
	"time"

	"github.com/ibrun/ibrun/mpi"
)

// The immediate collectives. Each is waited for at once, except in the loop of overlap.

// startFunc starts a collective.
type startFunc func(r *runner) (mpi.Request, error)

// waited returns the call that starts a collective and waits for it.
func waited(start startFunc) func(r *runner) error {
	return func(r *runner) error {
		q, err := start(r)
		if err != nil {
			return err
		}
		_, err = q.Wait()
		return err
	}
}

// overlapCalls is the number of blocking calls whose mean time is the time of a sleep or of a computation.
const overlapCalls = 10

// allreduceTime returns the time of a blocking Allreduce.
func (r *runner) allreduceTime() (time.Duration, error) {
	start := r.now()
	for range overlapCalls {
		if err := r.allreduce(); err != nil {
			return 0, err
		}
	}
	return (r.now() - start) / overlapCalls, nil
}

// overlap measures what is left of an Iallreduce after all ranks have slept for as long as an Allreduce takes.
func (r *runner) overlap(skip, n int) (time.Duration, error) {
	sleep, err := r.allreduceTime()
	if err != nil {
		return 0, err
	}
	return r.timeOverlap(skip, n, false, func() { time.Sleep(sleep) })
}

// calibration is a number of steps whose time tells how many a computation has.
const calibration = 1 << 20

// overlapCompute measures an Iallreduce together with a computation that alone takes as long as an Allreduce.
func (r *runner) overlapCompute(skip, n int) (time.Duration, error) {
	took, err := r.allreduceTime()
	if err != nil {
		return 0, err
	}
	begin := r.now()
	r.computed = compute(r.computed, calibration)
	steps := int(calibration * took / max(r.now()-begin, 1))
	return r.timeOverlap(skip, n, true, func() { r.computed = compute(r.computed, steps) })
}

// compute does so many steps, each of which depends on the one before.
func compute(x uint64, steps int) uint64 {
	for range steps {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

// timeOverlap measures Iallreduces, with a call of meanwhile before each Wait: the time of both together, or that of the Wait
// alone.
func (r *runner) timeOverlap(skip, n int, together bool, meanwhile func()) (sum time.Duration, err error) {
	for i := -skip; i < n; i++ {
		begin := r.now()
		q, err := startAllreduce(r)
		if err != nil {
			return 0, err
		}
		if meanwhile(); !together {
			begin = r.now()
		}
		if _, err := q.Wait(); err != nil {
			return 0, err
		}
		if took := r.now() - begin; i >= 0 {
			sum += took
			r.recordTime(i, took)
		}
		if err := r.comm.Barrier(); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

func startBarrier(r *runner) (mpi.Request, error) {
	return r.comm.Ibarrier()
}

func startBcast(r *runner) (mpi.Request, error) {
	return mpi.Ibcast(r.comm, r.send[:r.size], root)
}

func startReduce(r *runner) (mpi.Request, error) {
	return mpi.Ireduce(r.comm, r.recvFloats, r.sendFloats, mpi.Sum, root)
}

func startAllreduce(r *runner) (mpi.Request, error) {
	return mpi.Iallreduce(r.comm, r.recvFloats, r.sendFloats, mpi.Sum)
}

func startReduceScatter(r *runner) (mpi.Request, error) {
	return mpi.IreduceScatter(r.comm, r.recvFloats[:r.counts[r.rank]], r.sendFloats, r.counts, mpi.Sum)
}

func startScan(r *runner) (mpi.Request, error) {
	return mpi.Iscan(r.comm, r.recvFloats, r.sendFloats, mpi.Sum)
}

func startExscan(r *runner) (mpi.Request, error) {
	return mpi.Iexscan(r.comm, r.recvFloats, r.sendFloats, mpi.Sum)
}

func startGather(r *runner) (mpi.Request, error) {
	return mpi.Igather(r.comm, r.rootOnly(r.recv[:r.size*r.ranks]), r.send[:r.size], root)
}

func startScatter(r *runner) (mpi.Request, error) {
	return mpi.Iscatter(r.comm, r.recv[:r.size], r.rootOnly(r.send[:r.size*r.ranks]), root)
}

func startAllgather(r *runner) (mpi.Request, error) {
	return mpi.Iallgather(r.comm, r.recv[:r.size*r.ranks], r.send[:r.size])
}

func startAlltoall(r *runner) (mpi.Request, error) {
	return mpi.Ialltoall(r.comm, r.recv[:r.size*r.ranks], r.send[:r.size*r.ranks])
}

func startGatherv(r *runner) (mpi.Request, error) {
	return mpi.Igatherv(r.comm, r.rootOnly(r.recv[:r.size*r.ranks]), r.counts, r.displs, r.send[:r.size], root)
}

func startScatterv(r *runner) (mpi.Request, error) {
	return mpi.Iscatterv(r.comm, r.recv[:r.size], r.rootOnly(r.send[:r.size*r.ranks]), r.counts, r.displs, root)
}

func startAllgatherv(r *runner) (mpi.Request, error) {
	return mpi.Iallgatherv(r.comm, r.recv[:r.size*r.ranks], r.counts, r.displs, r.send[:r.size])
}

func startAlltoallv(r *runner) (mpi.Request, error) {
	return mpi.Ialltoallv(r.comm, r.recv[:r.size*r.ranks], r.counts, r.displs, r.send[:r.size*r.ranks], r.counts, r.displs)
}
