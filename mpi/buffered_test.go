package mpi_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestBuffered fills the attached buffer to the last guaranteed byte, with messages of all protocols that are not
// received yet.
func TestBuffered(t *testing.T) {
	sizes := []int{0, 1, 63, 64, 65, 1000, 8192, 8193, 100000, 3, 500}
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		return first(p, func(w *mpi.Comm) error {
			if err := errors.Join(
				wantClass("Bsend without a buffer", mpi.Bsend(w, []byte{1}, 1, 0), mpi.ErrBuffer),
				wantClass("detach of nothing", func() error { _, err := p.BufferDetach(); return err }(), mpi.ErrBuffer)); err != nil {
				return err
			}
			room := 0
			for _, n := range sizes {
				room += n + mpi.BsendOverhead
			}
			buf := make([]byte, room)
			if err := errors.Join(p.BufferAttach(buf), wantClass("second attach", p.BufferAttach(buf), mpi.ErrBuffer)); err != nil {
				return err
			}
			for i, n := range sizes {
				x := slices.Repeat([]byte{byte(i)}, n)
				if err := mpi.Bsend(w, x, 1, 1); err != nil {
					return fmt.Errorf("message %d of %d bytes, all promised to fit: %w", i, n, err)
				}
				clear(x) // the buffer has a copy
			}
			// It is too long for a transport to send it immediately, which would need no buffer.
			if err := wantClass("Bsend beyond", mpi.Bsend(w, make([]byte, room+16<<20), 1, 1), mpi.ErrBuffer); err != nil {
				return err
			}
			if err := mpi.Send(w, []byte{}, 1, 2); err != nil {
				return err
			}
			got, err := p.BufferDetach() // waits for the receiver
			if err != nil || len(got) != room || &got[0] != &buf[0] {
				return fmt.Errorf("detached %d bytes of %d: %w", len(got), room, err)
			}
			return p.BufferAttach(got[:100])
		}, func(w *mpi.Comm) error {
			if _, err := mpi.Recv(w, []byte{}, 0, 2); err != nil {
				return err
			}
			for i, n := range sizes {
				x := make([]byte, n)
				st, err := mpi.Recv(w, x, 0, 1)
				if err := errors.Join(err, expect(st, 0, 1, n)); err != nil || !slices.Equal(x, slices.Repeat([]byte{byte(i)}, n)) {
					return fmt.Errorf("message %d: %w", i, err)
				}
			}
			return nil
		})
	})
}

// TestDetachWaits: BufferDetach does not return before the messages in the buffer have left. This one is too long for
// any transport to send it eagerly or in fragments.
func TestDetachWaits(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		return first(p, func(w *mpi.Comm) error {
			if err := errors.Join(p.BufferAttach(make([]byte, 24<<20)), mpi.Bsend(w, make([]byte, 17<<20), 1, 1)); err != nil {
				return err
			}
			detached := make(chan error, 1)
			go func() {
				_, err := p.BufferDetach()
				detached <- err
			}()
			if err := w.Barrier(); err != nil { // the RTS has been sent, and the message is not received yet
				return err
			}
			select {
			case err := <-detached:
				return fmt.Errorf("detached while a message was in the buffer: %w", err)
			default:
			}
			return errors.Join(mpi.Send(w, numbers(1, 0), 1, 2), <-detached)
		}, func(w *mpi.Comm) error {
			if _, err := w.Probe(0, 1); err != nil {
				return err
			}
			if err := w.Barrier(); err != nil {
				return err
			}
			if _, err := mpi.Recv(w, make([]int32, 1), 0, 2); err != nil {
				return err
			}
			_, err := mpi.Recv(w, make([]byte, 17<<20), 0, 1)
			return err
		})
	})
}

// TestBufferedSteady sends far more than the buffer holds, as it drains.
func TestBufferedSteady(t *testing.T) {
	const count = 500
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		return first(p, func(w *mpi.Comm) error {
			if err := p.BufferAttach(make([]byte, 4*(40000+mpi.BsendOverhead))); err != nil {
				return err
			}
			for i := range count {
				for {
					err := mpi.Bsend(w, numbers(i*97%10000, i), 1, 1)
					if err == nil {
						break
					}
					if !errors.Is(err, mpi.ErrBuffer) {
						return err
					}
					if _, _, err := w.Iprobe(1, 1); err != nil { // lets messages leave
						return err
					}
				}
			}
			_, err := p.BufferDetach()
			return err
		}, func(w *mpi.Comm) error {
			x := make([]int32, 10000)
			for i := range count {
				n := i * 97 % 10000
				if _, err := mpi.Recv(w, x, 0, 1); err != nil || !slices.Equal(x[:n], numbers(n, i)) {
					return fmt.Errorf("message %d: %w", i, err)
				}
			}
			return nil
		})
	})
}
