package bench

import (
	"time"

	"github.com/ibrun/ibrun/mpi"
)

// Loops that write what they send before they send it, as programs do: then the lines of the buffer are in the caches of the
// sender's core, and the receiver has no copies of them. The time that writing takes is left out.

// writtenPingPong is pingPong with messages that both ranks write.
func (r *runner) writtenPingPong(skip, n int) (time.Duration, error) {
	send, recv := r.send[:r.size], r.recv[:r.size]
	var start, writing time.Duration
	for i := -skip; i < n; i++ {
		if i == 0 {
			start, writing = r.startClock(), 0
		}
		if r.rank != 0 {
			if _, err := mpi.Recv(r.comm, recv, 0, tag); err != nil {
				return 0, err
			}
		}
		writing += r.write(send)
		if err := mpi.Send(r.comm, send, 1-r.rank, tag); err != nil {
			return 0, err
		}
		if r.rank == 0 {
			if _, err := mpi.Recv(r.comm, recv, 1, tag); err != nil {
				return 0, err
			}
		}
	}
	took := r.now() - start
	both := []time.Duration{writing}
	err := mpi.Allreduce(r.comm, both, both, mpi.Sum)
	return took - both[0], err
}

// writtenWindows is streamWindows with messages that the sender writes before each window.
func (r *runner) writtenWindows(skip, n int) (time.Duration, error) {
	pairs := r.ranks / 2
	if r.rank < pairs && len(r.windowBuffer) != r.window*r.size {
		r.windowBuffer = pageAligned[byte](r.window*r.size, 1)
	}
	var start, writing time.Duration
	for i := -skip; i < n; i++ {
		if i == 0 {
			start, writing = r.startClock(), 0
		}
		if r.rank >= pairs {
			if err := r.recvWindow(r.rank - pairs); err != nil {
				return 0, err
			}
			continue
		}
		writing += r.write(r.windowBuffer)
		if err := r.sendWrittenWindow(r.rank + pairs); err != nil {
			return 0, err
		}
	}
	return r.now() - start - writing, nil
}

// sendWrittenWindow is sendWindow with a buffer for each message.
func (r *runner) sendWrittenWindow(to int) (err error) {
	reqs := r.reqs[:r.window]
	for w := range reqs {
		if reqs[w], err = mpi.Isend(r.comm, r.windowBuffer[w*r.size:][:r.size], to, tag); err != nil {
			return err
		}
	}
	if err := mpi.Waitall(reqs, nil); err != nil {
		return err
	}
	_, err = mpi.Recv(r.comm, r.recv[:ackBytes], to, tag)
	return err
}

// write writes messages that are sent next. It returns how long that took.
func (r *runner) write(messages []byte) time.Duration {
	began := r.now()
	clear(messages)
	return r.now() - began
}
