package coll

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/reduction"
)

// failingSync is the WordSync of a rank whose waits fail while the other one reads its memory.
type failingSync struct {
	gosched
	reading chan struct{} // closed when the other rank reads
}

func (s failingSync) WaitAtLeast(rank int, w *uint64, v uint64) error {
	for {
		select {
		case <-s.reading:
			s.broken.Store(true) // this rank has left the communicator
			return errBroken
		default:
			if spin(w, v, 1) {
				return nil
			}
		}
	}
}

// lateMemory is memory whose Read copies only when the rank that owns it has returned from its call, and uses it again.
type lateMemory struct {
	*remote
	reading, returned chan struct{}
	armed             *atomic.Bool
}

func (m lateMemory) Read(rank int, process uint64, dst []byte, addr uint64) error {
	if m.armed.CompareAndSwap(true, false) {
		close(m.reading)
		<-m.returned
	}
	return m.remote.Read(rank, process, dst, addr)
}

// TestWithdrawn: rank 0 fails while rank 1 reads its buffer, and uses the buffer again. Rank 1 takes no byte of it for data: its
// call fails as well.
func TestWithdrawn(t *testing.T) {
	const n = 8 * kib
	add, _ := reduction.Lookup(reduction.Sum, datatype.Float32)
	op := &Operation{Kernel: add, ElemSize: 4, Commutative: true}
	for name, call := range map[string]func(f *Shm, dst, src []byte) error{
		"bcast":   func(f *Shm, _, src []byte) error { return f.Bcast(src[:n], 0) },
		"scatter": func(f *Shm, dst, src []byte) error { return f.Scatter(dst[:n], src, 0) },
		"gather":  func(f *Shm, dst, src []byte) error { return f.Gather(dst, src[:n], 1) },
		"reduce":  func(f *Shm, dst, src []byte) error { return f.Reduce(dst[:n], src[:n], op, 1) },
		"allgather": func(f *Shm, dst, src []byte) error {
			return f.Allgather(dst, src[:n])
		},
		"alltoall":  func(f *Shm, dst, src []byte) error { return f.Alltoall(dst, src) },
		"allreduce": func(f *Shm, dst, src []byte) error { return f.Allreduce(dst[:n], src[:n], op) },
		"reduce_scatter": func(f *Shm, dst, src []byte) error {
			return f.ReduceScatter(dst[:n], src, []int{n / 4, n / 4}, op)
		},
	} {
		for _, oversubscribed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/oversubscribed=%v", name, oversubscribed), func(t *testing.T) {
				best, _ := ShmBytes(2)
				shms := newDirectShms(t, 2, best, oversubscribed)
				m := lateMemory{shms[0].Remote.(*remote), make(chan struct{}), make(chan struct{}), new(atomic.Bool)}
				m.armed.Store(true)
				shms[1].Remote = m
				shms[0].Sync = failingSync{shms[0].Sync.(gosched), m.reading}
				for _, f := range shms {
					f.Table = alwaysDirect
				}
				var errs [2]error
				done := make(chan struct{})
				go func() {
					defer close(done)
					errs[1] = call(shms[1], make([]byte, 2*n), make([]byte, 2*n))
				}()
				src := make([]byte, 2*n)
				errs[0] = call(shms[0], make([]byte, 2*n), src)
				close(m.returned)
				<-done
				for r, err := range errs {
					if !errors.Is(err, errBroken) {
						t.Errorf("rank %d: %v", r, err)
					}
				}
			})
		}
	}
}
