package bench

import (
	"time"

	"github.com/ibrun/ibrun/mpi"
)

// The point-to-point loops. Each has a counterpart of the same shape in testdata/peer.c. They run skip warm-up
// iterations and then n measured ones, and return the time of those on the clock of this rank.

const tag = 1

// ackBytes is the length of the answer to a window.
const ackBytes = 4

// pingPong sends one message there and one back.
func (r *runner) pingPong(skip, n int) (time.Duration, error) {
	send, recv := r.send[:r.size], r.recv[:r.size]
	var start time.Duration
	for i := -skip; i < n; i++ {
		if i == 0 {
			start = r.startClock()
		}
		if r.rank == 0 {
			if err := mpi.Send(r.comm, send, 1, tag); err != nil {
				return 0, err
			}
			if _, err := mpi.Recv(r.comm, recv, 1, tag); err != nil {
				return 0, err
			}
		} else {
			if _, err := mpi.Recv(r.comm, recv, 0, tag); err != nil {
				return 0, err
			}
			if err := mpi.Send(r.comm, send, 0, tag); err != nil {
				return 0, err
			}
		}
		r.markIteration(i)
	}
	return r.now() - start, nil
}

// streamWindows sends windows of messages from the first half of the ranks to the second, which acknowledges each window.
func (r *runner) streamWindows(skip, n int) (time.Duration, error) {
	pairs := r.ranks / 2
	var start time.Duration
	for i := -skip; i < n; i++ {
		if i == 0 {
			start = r.startClock()
		}
		if r.rank < pairs {
			if err := r.sendWindow(r.rank + pairs); err != nil {
				return 0, err
			}
		} else if err := r.recvWindow(r.rank - pairs); err != nil {
			return 0, err
		}
		r.markIteration(i)
	}
	return r.now() - start, nil
}

func (r *runner) sendWindow(to int) error {
	reqs := r.reqs[:r.window]
	if err := r.isends(reqs, to); err != nil {
		return err
	}
	if err := mpi.Waitall(reqs, nil); err != nil {
		return err
	}
	_, err := mpi.Recv(r.comm, r.recv[:ackBytes], to, tag)
	return err
}

func (r *runner) recvWindow(from int) error {
	reqs := r.reqs[:r.window]
	if err := r.irecvs(reqs, from); err != nil {
		return err
	}
	if err := mpi.Waitall(reqs, nil); err != nil {
		return err
	}
	return mpi.Send(r.comm, r.send[:ackBytes], from, tag)
}

func (r *runner) isends(reqs []mpi.Request, to int) (err error) {
	send := r.send[:r.size]
	for w := range reqs {
		if reqs[w], err = mpi.Isend(r.comm, send, to, tag); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) irecvs(reqs []mpi.Request, from int) (err error) {
	recv := r.recv[:r.size]
	for w := range reqs {
		if reqs[w], err = mpi.Irecv(r.comm, recv, from, tag); err != nil {
			return err
		}
	}
	return nil
}

// exchangeWindows sends and receives a window at the same time, on both ranks.
func (r *runner) exchangeWindows(skip, n int) (time.Duration, error) {
	other := 1 - r.rank
	sends, recvs := r.reqs[:r.window], r.reqs[r.window:]
	var start time.Duration
	for i := -skip; i < n; i++ {
		if i == 0 {
			start = r.startClock()
		}
		if err := r.irecvs(recvs, other); err != nil {
			return 0, err
		}
		if err := r.isends(sends, other); err != nil {
			return 0, err
		}
		if err := mpi.Waitall(sends, nil); err != nil {
			return 0, err
		}
		if err := mpi.Waitall(recvs, nil); err != nil {
			return 0, err
		}
		r.markIteration(i)
	}
	return r.now() - start, nil
}
