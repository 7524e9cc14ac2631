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

// overlapCalls is the number of blocking calls whose mean time is the time of a sleep.
const overlapCalls = 10

// overlap measures what is left of an Iallreduce after all ranks have slept for as long as an Allreduce takes.
func (r *runner) overlap(skip, n int) (time.Duration, error) {
	start := r.now()
	for range overlapCalls {
		if err := r.allreduce(); err != nil {
			return 0, err
		}
	}
	sleep := (r.now() - start) / overlapCalls
	var sum time.Duration
	for i := -skip; i < n; i++ {
		q, err := startAllreduce(r)
		if err != nil {
			return 0, err
		}
		time.Sleep(sleep)
		begin := r.now()
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
