package mpi_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
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
	protocol    = "ibrun_protocol"

	deterministic = "ibrun_deterministic"
	railHint      = "ibrun_rail"
	deviceHint    = "ibrun_device"
)

// defaults returns the hints of a communicator that was given none.
func defaults() map[string]string {
	return map[string]string{
		noAnyTag: "false", noAnySource: "false", exactLength: "false", overtaking: "false", strictOrder: "false",
		deterministic: "false", eagerLimit: "auto", protocol: "auto",
	}
}

// changed returns the defaults with some changes, given as pairs of key and value.
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

// hinted checks that a communicator has these hints and no others, except for the defaults of hints that only some
// transports have.
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
		open := (k == railHint || k == deviceHint) && v == "auto"
		errs = append(errs, check(ok || open, "%s=%s is there", k, v))
	}
	return errors.Join(errs...)
}

// everywhere runs f with all kinds of communicators: the predefined ones, and others that have no hints yet.
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

// halves creates an intercommunicator of rank 0 and the other ranks.
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

// boolean is the statement that an assertion is a boolean, and false unless set.
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

// What the tests give, and what is reported then.
func unknownHints() *mpi.Info {
	return infoOf("no_such_hint", "true", "mpi_assert_no_any", "x", "ibrun_no_such", strings.Repeat("v", mpi.MaxInfoValue),
		strings.Repeat("k", mpi.MaxInfoKey), "v")
}

var everyHint = []string{
	noAnyTag, "true", noAnySource, "true", exactLength, "true", overtaking, "true", strictOrder, "true",
	allocKinds, "system,mpi:alloc_mem", eagerLimit, "4096", protocol, "read",
}

func TestHintsGiven(t *testing.T) {
	statements(t, map[string]func(p *mpi.Process) error{
		"S2-02": func(p *mpi.Process) error {
			d, err := p.World().DupWithInfo(unknownHints())
			if err != nil {
				return err
			}
			e, r, err := p.World().IdupWithInfo(unknownHints())
			if err != nil {
				return err
			}
			_, err = r.Wait()
			return errors.Join(err, d.SetInfo(unknownHints()), hinted(d, defaults()), hinted(e, defaults()), d.Free(), e.Free())
		},
		"S2-03": func(p *mpi.Process) error {
			d, err := p.World().DupWithInfo(nil)
			if err != nil {
				return err
			}
			return errors.Join(d.SetInfo(nil), d.SetInfo(&mpi.Info{}), d.Barrier(), hinted(d, defaults()), d.Free())
		},
		"S2-04": func(p *mpi.Process) error {
			return everywhere(p, func(c *mpi.Comm) error { return hinted(c, defaults()) })
		},
		"S2-06": func(p *mpi.Process) error {
			return withDups(p, 2, func(a, b *mpi.Comm) error {
				return errors.Join(every(a), hinted(a, changed(everyHint...)), hinted(b, defaults()),
					hinted(p.World(), defaults()))
			})
		},
		"S2-07": func(p *mpi.Process) error {
			d, err := p.World().DupWithInfo(infoOf(everyHint...))
			if err != nil {
				return err
			}
			return errors.Join(hinted(d, changed(everyHint...)), d.Free())
		},
		"S2-08": func(p *mpi.Process) error {
			i := infoOf(everyHint...)
			d, r, err := p.World().IdupWithInfo(i)
			if err != nil {
				return err
			}
			err = i.Set(noAnyTag, "false") // it was read before
			_, waitErr := r.Wait()
			return errors.Join(err, waitErr, hinted(d, changed(everyHint...)), d.Free())
		},
		"S2-10": func(p *mpi.Process) error {
			// The same info has what to divide by. A hint of it does not hide that, and that is not a hint.
			i := infoOf("mpi_hw_resource_type", "mpi_shared_memory", eagerLimit, "4096", noAnyTag, "true")
			d, err := p.World().SplitType(mpi.TypeHWGuided, 0, i)
			e, err2 := p.World().SplitType(mpi.TypeShared, 0, nil)
			if err := errors.Join(err, err2); err != nil {
				return err
			}
			return errors.Join(hinted(d, changed(eagerLimit, "4096", noAnyTag, "true")), hinted(e, defaults()), d.Free(), e.Free())
		},
		"S2-09": func(p *mpi.Process) error {
			return everywhere(p, func(c *mpi.Comm) error {
				return errors.Join(every(c), hinted(c, changed(everyHint...)))
			})
		},
	})
}

func TestHintsKept(t *testing.T) {
	statements(t, map[string]func(p *mpi.Process) error{
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
				if err := every(c); err != nil {
					return err
				}
				return errors.Join(withDerivedComms(c, func(d *mpi.Comm) error { return hinted(d, defaults()) }),
					hinted(c, changed(everyHint...)))
			})
		},
		"S2-20": boolean(noAnyTag), "S2-22": boolean(noAnySource), "S2-24": boolean(exactLength),
		"S2-26": boolean(overtaking), "S2-29": boolean(strictOrder),
	})
}

func TestSetInfo(t *testing.T) {
	statements(t, map[string]func(p *mpi.Process) error{
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
				err := errors.Join(every(c), hinted(c, changed(everyHint...)), c.Barrier())
				off := infoOf(noAnyTag, "false", noAnySource, "false", exactLength, "false", overtaking, "false",
					strictOrder, "false", eagerLimit, "auto", protocol, "auto")
				return errors.Join(err, c.SetInfo(off), hinted(c, changed(allocKinds, "system,mpi:alloc_mem")))
			})
		},
		"S2-40": func(p *mpi.Process) error {
			return withDups(p, 1, func(c, _ *mpi.Comm) error {
				return errors.Join(every(c), hinted(c, changed(everyHint...)),
					c.SetInfo(infoOf(eagerLimit, "auto", overtaking, "false")),
					c.SetInfo(infoOf(eagerLimit, "7")), hintIs(c, eagerLimit, "7"), hintIs(c, overtaking, "false"))
			})
		},
		"S2-41": func(p *mpi.Process) error {
			return withDups(p, 1, func(c, _ *mpi.Comm) error {
				return errors.Join(every(c), c.SetInfo(&mpi.Info{}), c.SetInfo(nil), hinted(c, changed(everyHint...)))
			})
		},
		"S2-42": func(p *mpi.Process) error {
			return withDups(p, 1, func(c, _ *mpi.Comm) error {
				bad := infoOf(noAnyTag, "no", exactLength, " true", allocKinds, "cuda", eagerLimit, "-1", strictOrder, "0",
					protocol, "random")
				return errors.Join(every(c), c.SetInfo(bad), hinted(c, changed(everyHint...)))
			})
		},
	})
}

func TestGetInfo(t *testing.T) {
	statements(t, map[string]func(p *mpi.Process) error{
		"S2-50": func(p *mpi.Process) error {
			return withDups(p, 1, func(c, _ *mpi.Comm) error {
				a, err := c.GetInfo()
				b, err2 := c.GetInfo()
				err = errors.Join(err, err2, a.Set(noAnyTag, "true"), a.Delete(overtaking), hinted(c, defaults()))
				v, _ := b.Get(noAnyTag)
				err = errors.Join(err, check(a != b && v == "false", "both calls gave one info"), every(c))
				v, _ = b.Get(overtaking)
				return errors.Join(err, check(v == "false", "an info changed with the communicator"))
			})
		},
		"S2-51": func(p *mpi.Process) error {
			return withDups(p, 1, func(c, _ *mpi.Comm) error {
				return errors.Join(every(c), hinted(c, changed(everyHint...)))
			})
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
				return errors.Join(c.SetInfo(unknownHints()), c.SetInfo(infoOf(allocKinds, "rocm:device")), hinted(c, defaults()))
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

// every sets every hint of a communicator.
func every(c *mpi.Comm) error { return c.SetInfo(infoOf(everyHint...)) }

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

// others are the constructors that do not duplicate.
var others = []func(c *mpi.Comm) (*mpi.Comm, error){
	func(c *mpi.Comm) (*mpi.Comm, error) { return c.Split(0, 0) },
	func(c *mpi.Comm) (*mpi.Comm, error) { return c.SplitType(mpi.TypeShared, 0, nil) },
	func(c *mpi.Comm) (*mpi.Comm, error) { return mpi.CommFromGroup(c.Group(), "another", nil) },
	func(c *mpi.Comm) (*mpi.Comm, error) { return graphs["S2-11"](c, nil) },
	func(c *mpi.Comm) (*mpi.Comm, error) { return graphs["S2-12"](c, nil) },
}

// withDerivedComms runs f with a communicator from each constructor.
func withDerivedComms(c *mpi.Comm, f func(d *mpi.Comm) error) error {
	all := slices.Clone(others)
	for _, id := range slices.Sorted(maps.Keys(dups)) { // the same order at all ranks
		all = append(all, dups[id])
	}
	var errs []error
	for _, make := range all {
		d, err := make(c)
		if err != nil {
			return err
		}
		errs = append(errs, f(d), d.Free())
	}
	return errors.Join(errs...)
}

// TestDeterministic: with the hint, blocking and immediate reductions have the same bits, also in shared memory. The hint must be
// the same at all ranks.
func TestDeterministic(t *testing.T) {
	for _, n := range []int{3, 4, 7} {
		mpitest.Run(t, n, func(p *mpi.Process) error {
			c, err := p.World().DupWithInfo(infoOf(deterministic, "true"))
			if err != nil {
				return err
			}
			own := rand.New(rand.NewPCG(uint64(c.Rank()), 1))
			for _, length := range []int{1, 100, 5000, 70_000} {
				x := make([]float32, length)
				for i := range x {
					x[i] = float32(own.NormFloat64()) * 1e6
				}
				got, want, at := make([]float32, length), make([]float32, length), make([]float32, length)
				r, err := mpi.Iallreduce(c, got, x, mpi.Sum)
				_, err1 := r.Wait()
				err = errors.Join(err, err1, mpi.Allreduce(c, want, x, mpi.Sum), mpi.Reduce(c, at, x, mpi.Sum, 1))
				if err = errors.Join(err, check(slices.Equal(got, want), "%d elements: blocking and immediate differ", length)); err != nil {
					return err
				}
			}
			info := infoOf(deterministic, strconv.FormatBool(c.Rank() == 0))
			return ofClass(c.SetInfo(info), mpi.ErrInfoValue)
		})
	}
}
