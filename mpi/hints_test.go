package mpi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

const (
	noAnyTag    = "mpi_assert_no_any_tag"
	noAnySource = "mpi_assert_no_any_source"
	exactLength = "mpi_assert_exact_length"
	overtaking  = "mpi_assert_allow_overtaking"
	strictOrder = "mpi_assert_strict_persistent_collective_ordering"
	allocKinds  = "mpi_assert_memory_alloc_kinds"
	eagerLimit  = "ibrun_eager"
)

// defaults are the hints of a communicator that was given none.
func defaults() map[string]string {
	return map[string]string{
		noAnyTag: "false", noAnySource: "false", exactLength: "false", overtaking: "false", strictOrder: "false",
		eagerLimit: "auto",
	}
}

// changed are the defaults with some changes, key by value by key.
func changed(pairs ...string) map[string]string {
	m := defaults()
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func infoOf(pairs ...string) *mpi.Info {
	i := &mpi.Info{}
	for k := 0; k < len(pairs); k += 2 {
		if err := i.Set(pairs[k], pairs[k+1]); err != nil {
			panic(err)
		}
	}
	return i
}

// hinted checks that a communicator has these hints and no others.
func hinted(c *mpi.Comm, want map[string]string) error {
	i, err := c.GetInfo()
	if err != nil {
		return err
	}
	got := map[string]string{}
	for k, v := range i.All() {
		got[k] = v
	}
	var errs []error
	for k, v := range want {
		errs = append(errs, check(got[k] == v, "%s is %q, want %q", k, got[k], v))
	}
	for k, v := range got {
		_, ok := want[k]
		errs = append(errs, check(ok, "%s=%s is there", k, v))
	}
	return errors.Join(errs...)
}

// everywhere runs f with communicators of all sorts: the predefined ones, and others that have no hints yet.
func everywhere(p *mpi.Process, f func(c *mpi.Comm) error) error {
	dup, err := p.World().Dup()
	if err != nil {
		return err
	}
	half, err := p.World().Split(p.World().Rank()%2, 0)
	if err != nil {
		return err
	}
	errs := []error{f(dup), f(half), f(p.Self()), f(p.World()), dup.Free(), half.Free()}
	if p.World().Size() > 1 {
		between, err := halves(p)
		if err != nil {
			return err
		}
		errs = append(errs, f(between), between.Free())
	}
	return errors.Join(errs...)
}

// halves makes an intercommunicator of rank 0 and the others.
func halves(p *mpi.Process) (*mpi.Comm, error) {
	g := p.World().Group()
	first, err := g.Incl(0)
	rest, err2 := g.Excl(0)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	if p.World().Rank() != 0 {
		first, rest = rest, first
	}
	return mpi.IntercommFromGroups(first, rest, "halves", nil)
}

// boolean is the statement about an assertion that it is a boolean, and false unless set.
func boolean(key string) func(p *mpi.Process) error {
	return func(p *mpi.Process) error {
		return everywhere(p, func(c *mpi.Comm) error {
			err := hinted(c, defaults())
			for _, step := range [][2]string{
				{"true", "true"}, {"maybe", "true"}, {"TRUE", "true"}, {"", "true"}, {"false", "false"}, {"1", "false"},
			} {
				err = errors.Join(err, c.SetInfo(infoOf(key, step[0])), hinted(c, changed(key, step[1])))
			}
			return err
		})
	}
}

func TestHints(t *testing.T) {
	unknown := infoOf("no_such_hint", "true", "mpi_assert_no_any", "x", "ibrun_no_such", strings.Repeat("v", mpi.MaxInfoValue),
		strings.Repeat("k", mpi.MaxInfoKey), "v")
	all := infoOf(noAnyTag, "true", noAnySource, "true", exactLength, "true", overtaking, "true", strictOrder, "true",
		allocKinds, "system,mpi:alloc_mem", eagerLimit, "4096")
	set := changed(noAnyTag, "true", noAnySource, "true", exactLength, "true", overtaking, "true", strictOrder, "true",
		allocKinds, "system,mpi:alloc_mem", eagerLimit, "4096")
	statements(t, map[string]func(p *mpi.Process) error{
		"S2-02": func(p *mpi.Process) error {
			d, err := p.World().DupWithInfo(unknown)
			if err != nil {
				return err
			}
			e, r, err := p.World().IdupWithInfo(unknown)
			if err != nil {
				return err
			}
			_, err = r.Wait()
			return errors.Join(err, d.SetInfo(unknown), hinted(d, defaults()), hinted(e, defaults()), d.Free(), e.Free())
		},
		"S2-03": func(p *mpi.Process) error {
			d, err := p.World().DupWithInfo(nil)
			if err != nil {
				return err
			}
			return errors.Join(d.SetInfo(nil), d.SetInfo(&mpi.Info{}), d.Barrier(), hinted(d, defaults()), d.Free())
		},
		"S2-04": func(p *mpi.Process) error { return everywhere(p, func(c *mpi.Comm) error { return hinted(c, defaults()) }) },
		"S2-06": func(p *mpi.Process) error {
			return withDups(p, 2, func(a, b *mpi.Comm) error {
				return errors.Join(a.SetInfo(all), hinted(a, set), hinted(b, defaults()), hinted(p.World(), defaults()))
			})
		},
		"S2-07": func(p *mpi.Process) error {
			d, err := p.World().DupWithInfo(all)
			if err != nil {
				return err
			}
			return errors.Join(hinted(d, set), d.Free())
		},
		"S2-08": func(p *mpi.Process) error {
			i := all.Dup()
			d, r, err := p.World().IdupWithInfo(i)
			if err != nil {
				return err
			}
			err = i.Set(noAnyTag, "false") // it was read before
			_, waitErr := r.Wait()
			return errors.Join(err, waitErr, hinted(d, set), d.Free())
		},
		"S2-09": func(p *mpi.Process) error {
			return everywhere(p, func(c *mpi.Comm) error {
				return errors.Join(c.SetInfo(all), hinted(c, set))
			})
		},
		"S2-13": func(p *mpi.Process) error {
			return withDups(p, 1, func(c, _ *mpi.Comm) error {
				err := errors.Join(c.SetInfo(infoOf(noAnyTag, "true", eagerLimit, "100")), c.SetInfo(infoOf(overtaking, "true")))
				err = errors.Join(err, hinted(c, changed(noAnyTag, "true", eagerLimit, "100", overtaking, "true")))
				return errors.Join(err, c.SetInfo(infoOf(noAnyTag, "false")),
					hinted(c, changed(eagerLimit, "100", overtaking, "true")))
			})
		},
		"S2-14": func(p *mpi.Process) error {
			return withDups(p, 1, func(c, _ *mpi.Comm) error {
				if err := c.SetInfo(all); err != nil {
					return err
				}
				return errors.Join(offspring(c, func(d *mpi.Comm) error { return hinted(d, defaults()) }), hinted(c, set))
			})
		},
		"S2-20": boolean(noAnyTag), "S2-22": boolean(noAnySource), "S2-24": boolean(exactLength),
		"S2-26": boolean(overtaking), "S2-29": boolean(strictOrder),
		"S2-32": func(p *mpi.Process) error {
			return withDups(p, 1, func(c, _ *mpi.Comm) error {
				i, err := c.GetInfo()
				_, ok := i.Get(allocKinds)
				return errors.Join(err, check(!ok, "there before it was set"), c.SetInfo(infoOf(allocKinds, "system")),
					hinted(c, changed(allocKinds, "system")))
			})
		},
		"S2-34": func(p *mpi.Process) error {
			return everywhere(p, func(c *mpi.Comm) error {
				err := errors.Join(c.SetInfo(all), hinted(c, set), c.Barrier())
				off := infoOf(noAnyTag, "false", noAnySource, "false", exactLength, "false", overtaking, "false",
					strictOrder, "false", eagerLimit, "auto")
				return errors.Join(err, c.SetInfo(off), hinted(c, changed(allocKinds, "system,mpi:alloc_mem")))
			})
		},
		"S2-40": func(p *mpi.Process) error {
			return withDups(p, 1, func(c, _ *mpi.Comm) error {
				return errors.Join(c.SetInfo(all), hinted(c, set), c.SetInfo(infoOf(eagerLimit, "auto", overtaking, "false")),
					c.SetInfo(infoOf(eagerLimit, "7")), hintIs(c, eagerLimit, "7"), hintIs(c, overtaking, "false"))
			})
		},
		"S2-41": func(p *mpi.Process) error {
			return withDups(p, 1, func(c, _ *mpi.Comm) error {
				return errors.Join(c.SetInfo(all), c.SetInfo(&mpi.Info{}), c.SetInfo(nil), hinted(c, set))
			})
		},
		"S2-42": func(p *mpi.Process) error {
			return withDups(p, 1, func(c, _ *mpi.Comm) error {
				bad := infoOf(noAnyTag, "no", exactLength, " true", allocKinds, "cuda", eagerLimit, "-1", strictOrder, "0")
				return errors.Join(c.SetInfo(all), c.SetInfo(bad), hinted(c, set))
			})
		},
		"S2-50": func(p *mpi.Process) error {
			return withDups(p, 1, func(c, _ *mpi.Comm) error {
				a, err := c.GetInfo()
				b, err2 := c.GetInfo()
				err = errors.Join(err, err2, a.Set(noAnyTag, "true"), a.Delete(overtaking), hinted(c, defaults()))
				v, _ := b.Get(noAnyTag)
				err = errors.Join(err, check(a != b && v == "false", "both calls gave one info"), c.SetInfo(all))
				v, _ = b.Get(overtaking)
				return errors.Join(err, check(v == "false", "an info changed with the communicator"))
			})
		},
		"S2-51": func(p *mpi.Process) error {
			return withDups(p, 1, func(c, _ *mpi.Comm) error { return errors.Join(c.SetInfo(all), hinted(c, set)) })
		},
		"S2-52": func(p *mpi.Process) error { return hinted(p.Self(), defaults()) },
		"S2-53": func(p *mpi.Process) error {
			return withDups(p, 1, func(c, _ *mpi.Comm) error {
				return errors.Join(c.SetInfo(infoOf(allocKinds, "mpi", eagerLimit, "0")),
					hinted(c, changed(allocKinds, "mpi", eagerLimit, "0")))
			})
		},
		"S2-54": func(p *mpi.Process) error { return hintIs(p.World(), eagerLimit, "auto") },
		"S2-55": func(p *mpi.Process) error {
			return withDups(p, 1, func(c, _ *mpi.Comm) error {
				return errors.Join(c.SetInfo(unknown), c.SetInfo(infoOf(allocKinds, "rocm:device")), hinted(c, defaults()))
			})
		},
		"S2-56": func(p *mpi.Process) error {
			return everywhere(p, func(c *mpi.Comm) error {
				i, err := c.GetInfo()
				return errors.Join(err, check(i != nil, "the info is nil"), i.Set("mine", "x"))
			})
		},
		"S2-57": func(p *mpi.Process) error { // there is nothing to free: what is dropped is collected, and the hints stay
			return withDups(p, 1, func(c, _ *mpi.Comm) error {
				for range 100 {
					if _, err := c.GetInfo(); err != nil {
						return err
					}
				}
				return hinted(c, defaults())
			})
		},
	})
}

// hintIs checks one hint.
func hintIs(c *mpi.Comm, key, want string) error {
	i, err := c.GetInfo()
	v, _ := i.Get(key)
	return errors.Join(err, check(v == want, "%s is %q, want %q", key, v, want))
}

// withDups runs f with n duplicates of World, one or two, and frees them.
func withDups(p *mpi.Process, n int, f func(a, b *mpi.Comm) error) error {
	var c [2]*mpi.Comm
	for i := range n {
		var err error
		if c[i], err = p.World().Dup(); err != nil {
			return err
		}
	}
	errs := []error{f(c[0], c[1])}
	for i := range n {
		errs = append(errs, c[i].Free())
	}
	return errors.Join(errs...)
}

// offspring runs f with what each constructor makes of a communicator.
func offspring(c *mpi.Comm, f func(d *mpi.Comm) error) error {
	dup, err := c.Dup()
	idup, r, err2 := c.Idup()
	_, err3 := r.Wait()
	with, err4 := c.DupWithInfo(nil)
	split, err5 := c.Split(0, 0)
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		return err
	}
	var errs []error
	for _, d := range []*mpi.Comm{dup, idup, with, split} {
		errs = append(errs, f(d), d.Free())
	}
	return errors.Join(errs...)
}

// several runs statements that take more than one rank.
func several(t *testing.T, n int, all map[string]func(p *mpi.Process, c *mpi.Comm) error) {
	for id, f := range all {
		t.Run(id, func(t *testing.T) {
			mpitest.Run(t, n, func(p *mpi.Process) error {
				return withDups(p, 1, func(c, _ *mpi.Comm) error { return f(p, c) })
			})
		})
	}
}

// carousel sends n numbers to the next rank and receives as many from the one before, with and without room to spare, and checks
// what comes. Both know source and tag.
func carousel(c *mpi.Comm, n int) error {
	next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	out, in := make([]int32, n), make([]int32, n)
	for i := range out {
		out[i] = int32(c.Rank()*1000 + i)
	}
	for tag := range mpi.Tag(4) {
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

// against checks that everything which could wait with a wildcard fails at once with the class.
func against(c *mpi.Comm, src int, tag mpi.Tag, class mpi.Class) error {
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

// sizes that are sent at once, and announced.
var hintSizes = []int{0, 1, 100, 5000, 100000}

func TestHintsAct(t *testing.T) {
	several(t, 3, map[string]func(p *mpi.Process, c *mpi.Comm) error{
		"S2-05": func(_ *mpi.Process, c *mpi.Comm) error {
			// While a receive waits that it forbids, an assertion is not taken, and not reported.
			var x [1]int
			r, err := mpi.Irecv(c, x[:], mpi.AnySource, 8)
			err = errors.Join(err, c.SetInfo(infoOf(noAnySource, "true", noAnyTag, "true")))
			err = errors.Join(err, hinted(c, changed(noAnyTag, "true")), mpi.Send(c, x[:], (c.Rank()+1)%3, 8))
			_, waitErr := r.Wait()
			err = errors.Join(err, waitErr, c.SetInfo(infoOf(noAnySource, "true")))
			return errors.Join(err, hinted(c, changed(noAnyTag, "true", noAnySource, "true")))
		},
		"S2-21": func(_ *mpi.Process, c *mpi.Comm) error { return wildcard(c, noAnyTag, 0, mpi.AnyTag, mpi.ErrTag) },
		"S2-23": func(_ *mpi.Process, c *mpi.Comm) error { return wildcard(c, noAnySource, mpi.AnySource, 0, mpi.ErrRank) },
		"S2-25": exactly,
		"S2-27": func(_ *mpi.Process, c *mpi.Comm) error {
			err := c.SetInfo(infoOf(overtaking, "true"))
			for _, n := range hintSizes {
				err = errors.Join(err, carousel(c, n))
			}
			return errors.Join(err, collectives(c))
		},
		"S2-30": func(_ *mpi.Process, c *mpi.Comm) error {
			return errors.Join(c.SetInfo(infoOf(strictOrder, "true")), hintIs(c, strictOrder, "true"), collectives(c))
		},
		"S2-31": func(p *mpi.Process, c *mpi.Comm) error {
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
			// With the same everywhere it goes.
			return errors.Join(append(errs, c.SetInfo(infoOf(strictOrder, "true")), hintIs(c, strictOrder, "true"),
				ofClass(c.SetInfo(infoOf(strictOrder, fmt.Sprint(c.Rank() == 0))), mpi.ErrInfoValue), collectives(c))...)
		},
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
				if err := errors.Join(c.SetInfo(i), carousel(c, 100), carousel(c, 20000)); err != nil {
					return err
				}
			}
			return nil
		},
		"S2-44": func(_ *mpi.Process, c *mpi.Comm) error {
			mine := []*mpi.Info{nil, infoOf(noAnyTag, "true", eagerLimit, "5"), infoOf(exactLength, "true")}[c.Rank()]
			want := []map[string]string{defaults(), changed(noAnyTag, "true", eagerLimit, "5"), changed(exactLength, "true")}
			err := errors.Join(c.SetInfo(mine), hinted(c, want[c.Rank()]))
			for _, n := range hintSizes {
				err = errors.Join(err, carousel(c, n))
			}
			d, dupErr := c.DupWithInfo(mine)
			if err = errors.Join(err, dupErr); err != nil {
				return err
			}
			return errors.Join(hinted(d, want[c.Rank()]), d.Free())
		},
		"S2-45": func(_ *mpi.Process, c *mpi.Comm) error {
			same := infoOf(strictOrder, "true", noAnyTag, fmt.Sprint(c.Rank() == 0))
			want := changed(strictOrder, "true", noAnyTag, fmt.Sprint(c.Rank() == 0))
			return errors.Join(c.SetInfo(same), hinted(c, want))
		},
	})
}

// collectives runs some whose results are known.
func collectives(c *mpi.Comm) error {
	x := slices.Repeat([]int{c.Rank() + 1}, 10000)
	if err := mpi.Allreduce(c, x, x, mpi.Sum); err != nil {
		return err
	}
	n := c.Size()
	return errors.Join(check(x[0] == n*(n+1)/2 && x[9999] == x[0], "sums %d and %d", x[0], x[9999]), mpi.Bcast(c, x, 0), c.Barrier())
}

// wildcard asserts that one is not used; then traffic without it works, the other wildcard too, and with it all is an error.
func wildcard(c *mpi.Comm, key string, src int, tag mpi.Tag, class mpi.Class) error {
	next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	x := [1]int{c.Rank()}
	// A message that waits since before is found after, and one of later after the assertion is taken back.
	err := errors.Join(mpi.Send(c, x[:], next, 11), c.SetInfo(infoOf(key, "true")), hintIs(c, key, "true"))
	for _, n := range hintSizes {
		err = errors.Join(err, carousel(c, n))
	}
	if err = errors.Join(err, mpi.Send(c, x[:], next, 12), against(c, src, tag, class), collectives(c)); err != nil {
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

// exactly is S2-25: messages of the length of their receives arrive, and any other is ErrTruncate and touches nothing else.
func exactly(_ *mpi.Process, c *mpi.Comm) error {
	if err := errors.Join(c.SetInfo(infoOf(exactLength, "true")), hintIs(c, exactLength, "true")); err != nil {
		return err
	}
	for range 3 {
		for _, n := range hintSizes {
			if err := carousel(c, n); err != nil {
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

// TestHintsOfTheFreed: a communicator that is none, or no more, has no hints.
func TestHintsOfTheFreed(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		var none *mpi.Comm
		_, err := none.GetInfo()
		errs := []error{ofClass(err, mpi.ErrComm), ofClass(none.SetInfo(nil), mpi.ErrComm)}
		c, err := p.World().DupWithInfo(infoOf(exactLength, "true", noAnyTag, "true"))
		if err != nil {
			return err
		}
		// A receive that waits, and has told its buffer, ends with the communicator.
		errs = append(errs, carousel(c, 100000))
		r, err := mpi.Irecv(c, make([]int32, 100000), 1-c.Rank(), 77)
		errs = append(errs, err, c.Free())
		_, err = r.Wait()
		errs = append(errs, ofClass(err, mpi.ErrComm), ofClass(c.SetInfo(nil), mpi.ErrComm))
		_, err = c.GetInfo()
		return errors.Join(append(errs, ofClass(err, mpi.ErrComm))...)
	})
}

// TestHintsInterrupted: an assertion that comes while a probe waits with the wildcard ends the probe.
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
