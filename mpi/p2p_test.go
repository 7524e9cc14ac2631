package mpi_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/hook"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// expect checks a status.
func expect(st mpi.Status, source int, tag int, bytes int) error {
	if st.Source != source || st.Tag != tag || st.Bytes() != bytes || st.Cancelled() {
		return fmt.Errorf("status %+v, want source %d, tag %d, %d bytes", st, source, tag, bytes)
	}
	return nil
}

// wantClass checks that an error has a class.
func wantClass(what string, err error, class mpi.Class) error {
	if !errors.Is(err, class) {
		return fmt.Errorf("%s: %v, want %v", what, err, class)
	}
	return nil
}

// first runs a at rank 0 and b at other ranks.
func first(p *mpi.Process, a, b func(w *mpi.Comm) error) error {
	if p.World().Rank() == 0 {
		return a(p.World())
	}
	return b(p.World())
}

func numbers(n, from int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(from + i)
	}
	return x
}

// messageLengths are lengths in int32s, for the eager and for the rendezvous protocols.
var messageLengths = []int{0, 1, 1000, 5000, 100000}

// TestSends sends in every mode and form, and receives with and without wildcards.
func TestSends(t *testing.T) {
	type isend = func(*mpi.Comm, []int32, int, int) (mpi.Request, error)
	modes := map[string]isend{
		"Isend": mpi.Isend[int32], "Issend": mpi.Issend[int32], "Ibsend": mpi.Ibsend[int32], "Irsend": mpi.Irsend[int32],
	}
	for name, send := range map[string]func(*mpi.Comm, []int32, int, int) error{
		"Send": mpi.Send[int32], "Ssend": mpi.Ssend[int32], "Bsend": mpi.Bsend[int32], "Rsend": mpi.Rsend[int32],
	} {
		modes[name] = func(c *mpi.Comm, x []int32, dst int, tag int) (mpi.Request, error) {
			return mpi.Request{}, send(c, x, dst, tag)
		}
	}
	for name, init := range map[string]isend{
		"SendInit": mpi.SendInit[int32], "SsendInit": mpi.SsendInit[int32],
		"BsendInit": mpi.BsendInit[int32], "RsendInit": mpi.RsendInit[int32],
	} {
		modes[name] = func(c *mpi.Comm, x []int32, dst int, tag int) (mpi.Request, error) {
			r, err := init(c, x, dst, tag)
			if err != nil {
				return r, err
			}
			return r, r.Start()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(modes)) {
		send := modes[name]
		t.Run(name, func(t *testing.T) {
			mpitest.Run(t, 2, func(p *mpi.Process) error {
				return first(p, func(w *mpi.Comm) error {
					if err := p.BufferAttach(make([]byte, 1<<20)); err != nil {
						return err
					}
					for i, n := range messageLengths {
						r, err := send(w, numbers(n, i), 1, i)
						if err != nil {
							return err
						}
						if _, err := r.Wait(); err != nil {
							return err
						}
					}
					_, err := p.BufferDetach()
					return err
				}, func(w *mpi.Comm) error {
					for i, n := range messageLengths {
						src, tag := 0, i
						if i%2 == 1 {
							src = mpi.AnySource
						}
						if i%3 == 1 {
							tag = mpi.AnyTag
						}
						x := make([]int32, n+3)
						st, err := mpi.Recv(w, x, src, tag)
						if err := errors.Join(err, expect(st, 0, i, 4*n)); err != nil {
							return err
						}
						if mpi.Count[int32](st) != n || !slices.Equal(x[:n], numbers(n, i)) {
							return fmt.Errorf("%d numbers, want %d", mpi.Count[int32](st), n)
						}
					}
					return nil
				})
			})
		})
	}
}

// TestOrder: wildcards match messages in the order of their arrival, and receives are matched in the order of
// posting.
func TestOrder(t *testing.T) {
	uncheck(t)
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		return first(p, func(w *mpi.Comm) error {
			for i := range 40 {
				n := 1
				if i%3 == 0 {
					n = 5000 // an RTS must not be overtaken, nor overtake
				}
				if _, err := mpi.Isend(w, numbers(n, i), 1, i%4); err != nil {
					return err
				}
			}
			if err := w.Barrier(); err != nil {
				return err
			}
			x := make([]int32, 1)
			_, err := mpi.Recv(w, x, 1, 0)
			for i := range 3 {
				err = errors.Join(err, mpi.Send(w, numbers(1, i), 1, 9))
			}
			return err
		}, func(w *mpi.Comm) error {
			if err := w.Barrier(); err != nil {
				return err
			}
			x := make([]int32, 5000)
			for i := range 40 {
				src, tag := mpi.AnySource, mpi.AnyTag
				if i%2 == 0 {
					src = 0
				}
				if i%5 == 0 {
					tag = i % 4
				}
				if _, err := mpi.Recv(w, x, src, tag); err != nil || x[0] != int32(i) {
					return fmt.Errorf("message %d came as number %d: %w", x[0], i, err)
				}
			}
			var reqs []mpi.Request
			y := make([]int32, 3)
			for i, tag := range []int{mpi.AnyTag, 9, mpi.AnyTag} {
				r, err := mpi.Irecv(w, y[i:i+1], []int{mpi.AnySource, mpi.AnySource, 0}[i], tag)
				if err != nil {
					return err
				}
				reqs = append(reqs, r)
			}
			if err := errors.Join(mpi.Send(w, x[:1], 0, 0), mpi.Waitall(reqs, nil)); err != nil {
				return err
			}
			if !slices.Equal(y, numbers(3, 0)) {
				return fmt.Errorf("receives were served as %v", y)
			}
			return nil
		})
	})
}

// TestTruncate: the beginning of the message is kept, and the next message is not affected, for every protocol.
func TestTruncate(t *testing.T) {
	options := map[string]mpitest.Options{
		"plain": {},
		"late":  {Wrap: func(tr fabric.Transport) fabric.Transport { return hook.Wrap(tr, hook.Options{Async: 1, Log: t.Logf}) }},
		"offer": {Config: mpi.Config{UnexpectedBytes: 1}},
	}
	for _, name := range slices.Sorted(maps.Keys(options)) {
		o := options[name]
		t.Run(name, func(t *testing.T) {
			mpitest.RunWith(t, 2, o, func(p *mpi.Process) error {
				return first(p, func(w *mpi.Comm) error {
					for i, n := range messageLengths[1:] {
						for range 3 {
							if err := errors.Join(mpi.Send(w, numbers(n, i), 1, 1), mpi.Send(w, numbers(n, i+7), 1, 1)); err != nil {
								return err
							}
						}
					}
					return nil
				}, func(w *mpi.Comm) error {
					for i, n := range messageLengths[1:] {
						for _, room := range []int{0, n / 2, n - 1} {
							x := numbers(n+1, -1000)
							st, err := mpi.Recv(w, x[:room], 0, 1)
							if err := errors.Join(wantClass("Recv", err, mpi.ErrTruncate), expect(st, 0, 1, 4*room)); err != nil {
								return err
							}
							if !slices.Equal(x[:room], numbers(room, i)) || x[room] != int32(room-1000) {
								return fmt.Errorf("%d of %d: wrong part", room, n)
							}
							if _, err := mpi.Recv(w, x[:n], 0, 1); err != nil || !slices.Equal(x[:n], numbers(n, i+7)) {
								return fmt.Errorf("%d of %d: the next message: %w", room, n, err)
							}
						}
					}
					return nil
				})
			})
		})
	}
}

// TestNull: ProcNull accepts every message and returns empty ones.
func TestNull(t *testing.T) {
	const null = mpi.ProcNull
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		w, x := p.World(), numbers(3, 5)
		var errs []error
		note := func(what string, err error) {
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", what, err))
			}
		}
		empty := func(what string, st mpi.Status, err error) {
			note(what, errors.Join(err, expect(st, null, mpi.AnyTag, 0)))
		}
		waits := func(what string, r mpi.Request, err error) {
			note(what, err)
			_, err = r.Wait()
			note(what, err)
		}
		note("Send", mpi.Send(w, x, null, 0))
		note("Ssend", mpi.Ssend(w, x, null, 0))
		note("Bsend", mpi.Bsend(w, x, null, 0))
		note("Rsend", mpi.Rsend(w, x, null, 0))
		r, err := mpi.Isend(w, x, null, 0)
		waits("Isend", r, err)
		r, err = mpi.Issend(w, x, null, 0)
		waits("Issend", r, err)
		r, err = mpi.Ibsend(w, x, null, 0)
		waits("Ibsend", r, err)
		r, err = mpi.SsendInit(w, x, null, 0)
		note("Start", r.Start())
		waits("SsendInit", r, err)
		st, err := mpi.Recv(w, x, null, 3)
		empty("Recv", st, err)
		st, err = mpi.Sendrecv(w, x[:1], null, 0, x[1:], null, mpi.AnyTag)
		empty("Sendrecv", st, err)
		r, err = mpi.Irecv(w, x, null, mpi.AnyTag)
		note("Irecv", err)
		st, err = r.Wait()
		empty("Irecv", st, err)
		r, err = mpi.RecvInit(w, x, null, 3)
		note("RecvInit", errors.Join(err, r.Start()))
		st, ok, err := r.Test()
		empty("RecvInit", st, err)
		st, err = w.Probe(null, mpi.AnyTag)
		empty("Probe", st, err)
		st, ok2, err := w.Iprobe(null, 1)
		empty("Iprobe", st, err)
		m, st, err := w.Mprobe(null, 1)
		empty("Mprobe", st, err)
		st, err = mpi.Mrecv(m, x)
		empty("Mrecv", st, err)
		m, st, ok3, err := w.Improbe(null, 1)
		empty("Improbe", st, err)
		r, err = mpi.Imrecv(m, x)
		note("Imrecv", err)
		st, err = r.Wait()
		empty("Imrecv", st, err)
		if !ok || !ok2 || !ok3 || !slices.Equal(x, numbers(3, 5)) {
			errs = append(errs, fmt.Errorf("Test %v, Iprobe %v, Improbe %v, buffer %v", ok, ok2, ok3, x))
		}
		return errors.Join(errs...)
	})
}

// TestTags uses the smallest and the largest tag.
func TestTags(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		return first(p, func(w *mpi.Comm) error {
			return errors.Join(
				mpi.Send(w, numbers(1, 7), 1, math.MaxInt32), mpi.Send(w, numbers(1, 8), 1, 0),
				wantClass("tag -1", mpi.Send(w, numbers(1, 0), 1, -1), mpi.ErrTag),
				wantClass("AnyTag", mpi.Send(w, numbers(1, 0), 1, mpi.AnyTag), mpi.ErrTag),
				wantClass("rank 2", mpi.Send(w, numbers(1, 0), 2, 0), mpi.ErrRank),
				wantClass("AnySource", mpi.Send(w, numbers(1, 0), mpi.AnySource, 0), mpi.ErrRank))
		}, func(w *mpi.Comm) error {
			x := make([]int32, 1)
			st, err := mpi.Recv(w, x, 0, 0)
			if err := errors.Join(err, expect(st, 0, 0, 4)); err != nil || x[0] != 8 {
				return fmt.Errorf("%d: %w", x[0], err)
			}
			st, err = mpi.Recv(w, x, 0, mpi.AnyTag)
			if err := errors.Join(err, expect(st, 0, math.MaxInt32, 4)); err != nil || x[0] != 7 {
				return fmt.Errorf("%d: %w", x[0], err)
			}
			_, err1 := mpi.Recv(w, x, 0, -1)
			_, err2 := mpi.Irecv(w, x, 2, 0)
			_, err3 := w.Probe(-7, 0)
			return errors.Join(wantClass("tag -1", err1, mpi.ErrTag), wantClass("rank 2", err2, mpi.ErrRank),
				wantClass("rank -7", err3, mpi.ErrRank))
		})
	})
}

// TestSelf sends to the own rank, in World and in Self.
func TestSelf(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		for _, c := range []*mpi.Comm{p.World(), p.Self()} {
			for i, n := range messageLengths {
				r, err := mpi.Isend(c, numbers(n, i), c.Rank(), 3)
				if err != nil {
					return err
				}
				x := make([]int32, n)
				st, err := mpi.Recv(c, x, mpi.AnySource, 3)
				_, werr := r.Wait()
				if err := errors.Join(err, werr, expect(st, c.Rank(), 3, 4*n)); err != nil {
					return err
				}
				y := make([]int32, n)
				st, err = mpi.Sendrecv(c, x, c.Rank(), 4, y, c.Rank(), 4)
				if err := errors.Join(err, expect(st, c.Rank(), 4, 4*n)); err != nil || !slices.Equal(y, numbers(n, i)) {
					return fmt.Errorf("%d numbers: %w", n, err)
				}
			}
		}
		return nil
	})
}

// TestSendrecv exchanges around a ring, and rejects overlapping buffers.
func TestSendrecv(t *testing.T) {
	uncheck(t)
	const n = 3
	mpitest.Run(t, n, func(p *mpi.Process) error {
		w := p.World()
		next, prev := (w.Rank()+1)%n, (w.Rank()+n-1)%n
		for _, size := range messageLengths {
			x := make([]int64, size)
			st, err := mpi.Sendrecv(w, numbers(2*size, w.Rank()), next, 1, x, prev, 1)
			if err := errors.Join(err, expect(st, prev, 1, 8*size)); err != nil {
				return err
			}
		}
		x := numbers(10, 0)
		_, err := mpi.Sendrecv(w, x[:5], next, 1, x[4:], prev, 1)
		if err := wantClass("overlap", err, mpi.ErrBuffer); err != nil {
			return err
		}
		_, err = mpi.Sendrecv(w, x[:5], next, 1, x[5:], prev, 1)
		return err
	})
}

// TestLarge sends 8 MiB in both directions at the same time.
func TestLarge(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		w := p.World()
		other := 1 - w.Rank()
		x := make([]int32, 2<<20)
		st, err := mpi.Sendrecv(w, numbers(len(x), w.Rank()), other, 1, x, other, 1)
		if err := errors.Join(err, expect(st, other, 1, 8<<20)); err != nil {
			return err
		}
		if !slices.Equal(x, numbers(len(x), other)) {
			return errors.New("wrong bytes")
		}
		return nil
	})
}
