package mpi_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// several runs statements that need more than one rank.
func several(t *testing.T, n int, all map[string]func(p *mpi.Process, c *mpi.Comm) error) {
	for id, f := range byName(all) {
		t.Run(id, func(t *testing.T) {
			mpitest.Run(t, n, func(p *mpi.Process) error {
				return withDups(p, 1, func(c, _ *mpi.Comm) error { return f(p, c) })
			})
		})
	}
}

// sendAround sends n numbers to the next rank, receives as many from the previous one, and checks them. Source and
// tag are explicit.
func sendAround(c *mpi.Comm, n int) error {
	next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	out, in := make([]int32, n), make([]int32, n)
	for i := range out {
		out[i] = int32(c.Rank()*1000 + i)
	}
	for tag := range 4 {
		st, err := mpi.Sendrecv(c, out, next, tag, in, before, tag)
		if err != nil || st.Source != before || st.Tag != tag {
			return fmt.Errorf("tag %d: %+v, %w", tag, st, err)
		}
		for i, v := range in {
			if v != int32(before*1000+i) {
				return fmt.Errorf("tag %d: number %d is %d", tag, i, v)
			}
		}
		clear(in)
	}
	return nil
}

// checkRejected checks that every call that could wait with a wildcard immediately fails with the class.
func checkRejected(c *mpi.Comm, src int, tag int, class mpi.Class) error {
	var x [1]int
	_, err := mpi.Recv(c, x[:], src, tag)
	errs := []error{ofClass(err, class)}
	r, err := mpi.Irecv(c, x[:], src, tag)
	if err == nil {
		_, err = r.Wait()
	}
	errs = append(errs, ofClass(err, class))
	r, err = mpi.RecvInit(c, x[:], src, tag)
	if err == nil {
		if err = r.Start(); err == nil {
			_, err = r.Wait()
		}
		errs = append(errs, r.Free())
	}
	errs = append(errs, ofClass(err, class))
	_, err = c.Probe(src, tag)
	errs = append(errs, ofClass(err, class))
	_, _, err = c.Iprobe(src, tag)
	errs = append(errs, ofClass(err, class))
	_, _, err = c.Mprobe(src, tag)
	errs = append(errs, ofClass(err, class))
	_, _, _, err = c.Improbe(src, tag)
	errs = append(errs, ofClass(err, class))
	_, err = mpi.Sendrecv(c, x[:], c.Rank(), 3, make([]int, 1), src, tag)
	errs = append(errs, ofClass(err, class))
	_, err = mpi.Recv(c, x[:], c.Rank(), 3) // what that sent
	return errors.Join(append(errs, err)...)
}

// sizes are lengths for the eager and for the rendezvous protocol.
var hintSizes = []int{0, 1, 100, 5000, 100000}

func TestHintsAct(t *testing.T) {
	several(t, 3, map[string]func(p *mpi.Process, c *mpi.Comm) error{
		"S2-05": func(_ *mpi.Process, c *mpi.Comm) error {
			// An assertion is rejected, and not reported, while a receive that violates it is pending.
			var x [1]int
			r, err := mpi.Irecv(c, x[:], mpi.AnySource, 8)
			err = errors.Join(err, c.SetInfo(infoOf(noAnySource, "true", noAnyTag, "true")))
			// No message comes before all have been asked.
			err = errors.Join(err, hinted(c, changed(noAnyTag, "true")), c.Barrier(), mpi.Send(c, x[:], (c.Rank()+1)%3, 8))
			_, waitErr := r.Wait()
			err = errors.Join(err, waitErr, c.SetInfo(infoOf(noAnySource, "true")))
			return errors.Join(err, hinted(c, changed(noAnyTag, "true", noAnySource, "true")))
		},
		"S2-21": func(_ *mpi.Process, c *mpi.Comm) error { return wildcard(c, noAnyTag, 0, mpi.AnyTag, mpi.ErrTag) },
		"S2-23": func(_ *mpi.Process, c *mpi.Comm) error {
			return wildcard(c, noAnySource, mpi.AnySource, 0, mpi.ErrRank)
		},
		"S2-25": exactly,
		"S2-27": func(_ *mpi.Process, c *mpi.Comm) error {
			err := c.SetInfo(infoOf(overtaking, "true"))
			for _, n := range hintSizes {
				err = errors.Join(err, sendAround(c, n))
			}
			return errors.Join(err, collectives(c))
		},
		"S2-30": func(_ *mpi.Process, c *mpi.Comm) error {
			return errors.Join(c.SetInfo(infoOf(strictOrder, "true")), hintIs(c, strictOrder, "true"), collectives(c))
		},
		"S2-31": differently,
		"S2-33": func(p *mpi.Process, c *mpi.Comm) error {
			err := errors.Join(c.SetInfo(infoOf(allocKinds, "mpi:alloc_mem")), hintIs(c, allocKinds, "mpi:alloc_mem"))
			x, allocErr := mpi.Alloc[int32](p, 100000)
			if err := errors.Join(err, allocErr); err != nil {
				return err
			}
			if c.Rank() == 0 {
				x[99999] = 5
				return mpi.Send(c, x, 1, 1)
			} else if c.Rank() == 1 {
				_, err = mpi.Recv(c, x, 0, 1)
			}
			return errors.Join(err, check(c.Rank() == 2 || x[99999] == 5, "the last number is %d", x[99999]))
		},
		"S2-43": func(_ *mpi.Process, c *mpi.Comm) error {
			// It begins and ends with the others: what each does before is seen by all after.
			for i := range 20 {
				i := infoOf(eagerLimit, fmt.Sprint(i), exactLength, fmt.Sprint(i%2 == 0))
				if err := errors.Join(c.SetInfo(i), sendAround(c, 100), sendAround(c, 20000)); err != nil {
					return err
				}
			}
			return nil
		},
		"protocols": differentProtocols,
		"S2-44":     severally,
		"S2-45": func(_ *mpi.Process, c *mpi.Comm) error {
			same := infoOf(strictOrder, "true", noAnyTag, fmt.Sprint(c.Rank() == 0))
			want := changed(strictOrder, "true", noAnyTag, fmt.Sprint(c.Rank() == 0))
			return errors.Join(c.SetInfo(same), hinted(c, want))
		},
	})
}

// differentProtocols sends by another protocol at each rank, or draws one for each message: results and order are the same.
func differentProtocols(_ *mpi.Process, c *mpi.Comm) error {
	for i := range 7 {
		p := []string{"eager", "parts", "read", "shared", "copied", "random:1", "random:2"}[(i+c.Rank())%7]
		err := errors.Join(c.SetInfo(infoOf(protocol, p)), hintIs(c, protocol, p), collectives(c))
		for _, n := range hintSizes {
			err = errors.Join(err, sendAround(c, n))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

// collectives runs some collectives with known results.
func collectives(c *mpi.Comm) error {
	x := slices.Repeat([]int{c.Rank() + 1}, 10000)
	if err := mpi.Allreduce(c, x, x, mpi.Sum); err != nil {
		return err
	}
	n := c.Size()
	return errors.Join(check(x[0] == n*(n+1)/2 && x[9999] == x[0], "sums %d and %d", x[0], x[9999]),
		mpi.Bcast(c, x, 0), c.Barrier())
}

// wildcard asserts that one wildcard is not used. Then traffic without it works, also with the other wildcard, and
// each use of it is an error.
func wildcard(c *mpi.Comm, key string, src int, tag int, class mpi.Class) error {
	next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	x := [1]int{c.Rank()}
	// A message that waits since before is found after, and one of later after the assertion is taken back.
	err := errors.Join(mpi.Send(c, x[:], next, 11), c.SetInfo(infoOf(key, "true")), hintIs(c, key, "true"))
	for _, n := range hintSizes {
		err = errors.Join(err, sendAround(c, n))
	}
	if err = errors.Join(err, mpi.Send(c, x[:], next, 12), checkRejected(c, src, tag, class), collectives(c)); err != nil {
		return err
	}
	if src != mpi.AnySource {
		src, tag = mpi.AnySource, 11
	} else {
		src, tag = before, mpi.AnyTag
	}
	st, err := mpi.Recv(c, x[:], src, tag)
	err = errors.Join(err, check(st.Source == before && st.Tag == 11 && x[0] == before, "%+v", st))
	if err = errors.Join(err, c.SetInfo(infoOf(key, "false"))); err != nil {
		return err
	}
	st, err = mpi.Recv(c, x[:], mpi.AnySource, mpi.AnyTag)
	return errors.Join(err, check(st.Source == before && st.Tag == 12, "%+v", st))
}

// exactly is S2-25: messages of the length of their receives arrive; any other fails with ErrTruncate and writes nothing
// beyond the buffer.
func exactly(_ *mpi.Process, c *mpi.Comm) error {
	if err := errors.Join(c.SetInfo(infoOf(exactLength, "true")), hintIs(c, exactLength, "true")); err != nil {
		return err
	}
	for range 3 {
		for _, n := range hintSizes {
			if err := sendAround(c, n); err != nil {
				return err
			}
		}
	}
	next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	for _, sent := range hintSizes {
		for _, room := range hintSizes {
			buf := slices.Repeat([]int32{-7}, room+100)
			r, err := mpi.Irecv(c, buf[:room], before, 9)
			if err != nil {
				return err
			}
			s, err := mpi.Isend(c, make([]int32, sent), next, 9)
			if err != nil {
				return err
			}
			_, err = r.Wait()
			if room == sent && err != nil || room != sent && !errors.Is(err, mpi.ErrTruncate) {
				return fmt.Errorf("%d numbers for %d: %w", sent, room, err)
			}
			if _, err := s.Wait(); err != nil {
				return err
			}
			if slices.ContainsFunc(buf[room:], func(x int32) bool { return x != -7 }) {
				return fmt.Errorf("%d numbers for %d: memory behind the buffer was written", sent, room)
			}
		}
	}
	return collectives(c) // which are not point-to-point
}

// TestHintsOfTheFreed: a nil or freed communicator has no hints.
func TestHintsOfTheFreed(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		var none *mpi.Comm
		_, err := none.GetInfo()
		errs := []error{ofClass(err, mpi.ErrComm), ofClass(none.SetInfo(nil), mpi.ErrComm)}
		c, err := p.World().DupWithInfo(infoOf(exactLength, "true", noAnyTag, "true"))
		if err != nil {
			return err
		}
		// A pending receive that has sent its RTR ends with the communicator.
		errs = append(errs, sendAround(c, 100000))
		r, err := mpi.Irecv(c, make([]int32, 100000), 1-c.Rank(), 77)
		errs = append(errs, err, c.Free())
		_, err = r.Wait()
		errs = append(errs, ofClass(err, mpi.ErrComm), ofClass(c.SetInfo(nil), mpi.ErrComm))
		_, err = c.GetInfo()
		return errors.Join(append(errs, ofClass(err, mpi.ErrComm))...)
	})
}

// TestHintsInterrupted: an assertion that is set while a probe waits with the wildcard ends the probe.
func TestHintsInterrupted(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		return withDups(p, 1, func(c, _ *mpi.Comm) error {
			ended := make(chan error, 1)
			go func() {
				_, err := c.Probe(mpi.AnySource, 5)
				ended <- err
			}()
			return errors.Join(c.SetInfo(infoOf(noAnySource, "true")), ofClass(<-ended, mpi.ErrRank))
		})
	})
}

// differently is S2-31: where the ranks do not agree, it is an error at all and nothing changes.
func differently(_ *mpi.Process, c *mpi.Comm) error {
	mine := infoOf(noAnyTag, "true")
	if c.Rank() == 1 {
		mine = infoOf(strictOrder, "true", noAnyTag, "true")
	}
	errs := []error{ofClass(c.SetInfo(mine), mpi.ErrInfoValue), hinted(c, defaults())}
	d, err := c.DupWithInfo(mine)
	errs = append(errs, ofClass(err, mpi.ErrInfoValue), check(d == nil, "there is a communicator"))
	d, r, err := c.IdupWithInfo(mine)
	errs = append(errs, err)
	_, err = r.Wait()
	errs = append(errs, ofClass(err, mpi.ErrInfoValue), ofClass(d.Barrier(), mpi.ErrComm))
	// With the same value everywhere it succeeds.
	return errors.Join(append(errs, c.SetInfo(infoOf(strictOrder, "true")), hintIs(c, strictOrder, "true"),
		ofClass(c.SetInfo(infoOf(strictOrder, fmt.Sprint(c.Rank() == 0))), mpi.ErrInfoValue), collectives(c))...)
}

// severally is S2-44: each rank has its own hints.
func severally(_ *mpi.Process, c *mpi.Comm) error {
	mine := []*mpi.Info{nil, infoOf(noAnyTag, "true", eagerLimit, "5"), infoOf(exactLength, "true")}[c.Rank()]
	want := []map[string]string{defaults(), changed(noAnyTag, "true", eagerLimit, "5"), changed(exactLength, "true")}
	err := errors.Join(c.SetInfo(mine), hinted(c, want[c.Rank()]))
	for _, n := range hintSizes {
		err = errors.Join(err, sendAround(c, n))
	}
	d, dupErr := c.DupWithInfo(mine)
	if err = errors.Join(err, dupErr); err != nil {
		return err
	}
	return errors.Join(hinted(d, want[c.Rank()]), d.Free())
}
