package mpi_test

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// statements runs each statement on one rank and on three. Their keys are the numbers of the requirements that they
// test.
func statements(t *testing.T, all map[string]func(p *mpi.Process) error) {
	for id, f := range byName(all) {
		t.Run(id, func(t *testing.T) {
			for _, n := range []int{1, 3} {
				mpitest.Run(t, n, f)
			}
		})
	}
}

// byName iterates over a map by its sorted keys, so that programs which share the ranks of a test run the same
// statement at the same time.
func byName[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// journal creates keys whose callbacks record their arguments. Copy callbacks copy v to 10v. A callback fails if its
// line is in fail.
type journal struct {
	p     *mpi.Process
	mu    sync.Mutex
	lines []string
	fail  map[string]bool // lines
}

var errCallback = errors.New("the callback fails")

func (j *journal) write(c *mpi.Comm, what, name string, v int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	line := fmt.Sprint(what, " ", name, v)
	j.lines = append(j.lines, line)
	if c == nil || j.fail[line] {
		return errCallback
	}
	return nil
}

func (j *journal) key(name string) mpi.Keyval[int] {
	return mpi.NewKeyval(j.p,
		func(c *mpi.Comm, v int) (int, bool, error) { return 10 * v, true, j.write(c, "copy", name, v) },
		func(c *mpi.Comm, v int) error { return j.write(c, "delete", name, v) })
}

// read checks the lines recorded since the last read; commas separate them.
func (j *journal) read(want string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	got := strings.Join(j.lines, ", ")
	if j.lines = nil; got != want {
		return fmt.Errorf("callbacks: %q, want %q", got, want)
	}
	return nil
}

// holds checks the attribute of c; want < 0 means that there must be none.
func holds(k mpi.Keyval[int], c *mpi.Comm, want int) error {
	v, ok, err := k.Get(c)
	if err != nil || ok != (want >= 0) || ok && v != want {
		return fmt.Errorf("attribute %d: %d, %v, %w, want %d", k.Number(), v, ok, err, want)
	}
	return nil
}

func check(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// within runs f with a communicator and two keys, of which a is 1 and b is 2.
func within(f func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error) func(p *mpi.Process) error {
	return func(p *mpi.Process) error {
		j := &journal{p: p, fail: map[string]bool{}}
		c, err := p.World().Dup()
		if err != nil {
			return err
		}
		a, b := j.key("a"), j.key("b")
		return errors.Join(a.Set(c, 1), b.Set(c, 2), f(j, c, a, b))
	}
}

// Ways to duplicate. The last two return what happened when the request has completed.
var dups = map[string]func(c *mpi.Comm) (*mpi.Comm, error){
	"S4-20": (*mpi.Comm).Dup,
	"S4-21": func(c *mpi.Comm) (*mpi.Comm, error) { return finished(c.Idup()) },
	"S4-22": func(c *mpi.Comm) (*mpi.Comm, error) { return c.DupWithInfo(hints()) },
	"S4-23": func(c *mpi.Comm) (*mpi.Comm, error) { return finished(c.IdupWithInfo(hints())) },
}

func finished(d *mpi.Comm, r mpi.Request, err error) (*mpi.Comm, error) {
	if err != nil || d == nil {
		return d, errors.Join(err, check(d == nil && r == mpi.Request{}, "failed, with a request or communicator"))
	}
	_, err = r.Wait()
	return d, err
}

func hints() *mpi.Info {
	i := &mpi.Info{}
	if err := i.Set("nobody_knows_this", "true"); err != nil {
		panic(err)
	}
	return i
}

func TestAttrDups(t *testing.T) {
	all := map[string]func(p *mpi.Process) error{}
	for id, dup := range dups {
		all[id] = within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			d, err := dup(c)
			if err != nil {
				return err
			}
			return errors.Join(j.read("copy a1, copy b2"), holds(a, d, 10), holds(b, d, 20), holds(a, c, 1), checkSum(d),
				d.Free(), j.read("delete b20, delete a10"), c.Free(), j.read("delete b2, delete a1"))
		})
		// The dup fails where a copy callback does, and everywhere else; what was copied goes again.
		all["S4-28/"+id[3:]] = within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			here, log := c.Rank() == 0, "copy a1, copy b2, delete b20, delete a10"
			if here {
				j.fail["copy b2"] = true
				log = "copy a1, copy b2, delete a10"
			}
			d, err := dup(c)
			errs := []error{
				check(errors.Is(err, errCallback) == here && err != nil, "error %v at rank %d", err, c.Rank()),
				ofClass(err, mpi.ErrOther), j.read(log), holds(a, c, 1), holds(b, c, 2), checkSum(c),
			}
			if d != nil { // of Idup at other ranks
				_, _, err := a.Get(d)
				errs = append(errs, ofClass(err, mpi.ErrComm), ofClass(d.Barrier(), mpi.ErrComm))
			}
			delete(j.fail, "copy b2")
			d, err = dup(c)
			if err != nil {
				return errors.Join(append(errs, err)...)
			}
			return errors.Join(append(errs, checkSum(d), d.Free(), c.Free())...)
		})
	}
	all["S4-90"] = func(p *mpi.Process) error {
		errs := []error{}
		for _, id := range slices.Sorted(maps.Keys(dups)) { // the same order at all ranks
			dup, j := dups[id], &journal{p: p}
			k := j.key("k")
			c, err := dup(p.World())
			if err != nil {
				return err
			}
			errs = append(errs, j.read(""), k.Set(c, 3))
			d, err := dup(c)
			if err != nil {
				return err
			}
			errs = append(errs, holds(k, d, 30), j.read("copy k3"), c.Free(), d.Free())
		}
		return errors.Join(errs...)
	}
	statements(t, all)
}

func TestAttrKeys(t *testing.T) {
	statements(t, map[string]func(p *mpi.Process) error{
		"S4-01": func(p *mpi.Process) error {
			seen := map[int]bool{}
			var keys []mpi.Keyval[int]
			for i := range 300 {
				k := mpi.NewKeyval[int](p, nil, nil)
				if seen[k.Number()] {
					return fmt.Errorf("key %d twice", k.Number())
				}
				if seen[k.Number()] = true; i%3 == 0 {
					delete(seen, k.Number())
					if err := k.Free(); err != nil {
						return err
					}
				} else {
					keys = append(keys, k)
				}
			}
			return check(len(seen) == len(keys), "%d numbers for %d keys", len(seen), len(keys))
		},
		"S4-02": func(p *mpi.Process) error {
			k := mpi.NewKeyval[int](p, nil, nil)
			copied := k
			n := copied.Number()
			return errors.Join(copied.Set(p.Self(), 4), holds(k, p.Self(), 4), check(n == k.Number() && copied == k, "number %d", n))
		},
		"S4-03": func(p *mpi.Process) error {
			before, err := p.World().Dup()
			k := mpi.NewKeyval[int](p, nil, nil)
			after, err2 := p.World().Split(0, 0)
			if err := errors.Join(err, err2); err != nil {
				return err
			}
			var errs []error
			for i, c := range []*mpi.Comm{before, after, p.World(), p.Self()} {
				errs = append(errs, holds(k, c, -1), k.Set(c, i))
			}
			for i, c := range []*mpi.Comm{before, after, p.World(), p.Self()} {
				errs = append(errs, holds(k, c, i))
			}
			return errors.Join(append(errs, before.Free(), after.Free())...)
		},
		"S4-04": func(p *mpi.Process) error {
			var none mpi.Keyval[int]
			for range 100 {
				if k := mpi.NewKeyval[int](p, nil, nil); k.Number() == mpi.KeyvalInvalid || k == none {
					return errors.New("a new key is the zero Keyval")
				}
			}
			return check(none.Number() == mpi.KeyvalInvalid, "the zero key has number %d", none.Number())
		},
	})
}

func TestAttrState(t *testing.T) {
	statements(t, map[string]func(p *mpi.Process) error{
		"S4-07": func(p *mpi.Process) error { // extra state is what callbacks close over
			make := func(state *[]int) mpi.Keyval[int] {
				return mpi.NewKeyval(p,
					func(_ *mpi.Comm, v int) (int, bool, error) { *state = append(*state, v); return -v, true, nil },
					func(_ *mpi.Comm, v int) error { *state = append(*state, v); return nil })
			}
			var of, other []int
			k, l := make(&of), make(&other)
			c, err := p.Self().Dup()
			if err != nil {
				return err
			}
			errs := []error{k.Set(c, 1), l.Set(c, 2)}
			d, err := c.Dup()
			if err != nil {
				return err
			}
			errs = append(errs, c.Free(), d.Free())
			return errors.Join(append(errs, check(slices.Equal(of, []int{1, 1, -1}) && slices.Equal(other, []int{2, 2, -2}),
				"states %v and %v", of, other))...)
		},
	})
}

func TestAttrCopy(t *testing.T) {
	statements(t, map[string]func(p *mpi.Process) error{
		"S4-24": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			unset, gone := j.key("unset"), j.key("gone")
			errs := []error{gone.Set(c, 5), gone.Delete(c), j.read("delete gone5"), a.Set(c, 3), j.read("delete a1")}
			d, err := c.Dup()
			if err != nil {
				return err
			}
			return errors.Join(append(errs, j.read("copy b2, copy a3"), holds(unset, d, -1), holds(gone, d, -1),
				holds(a, d, 30), holds(b, d, 20), d.Free(), c.Free())...)
		}),
		"S4-25": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error { // in any order
			d, err := c.Dup()
			if err != nil {
				return err
			}
			slices.Sort(j.lines)
			return errors.Join(j.read("copy a1, copy b2"), d.Free(), c.Free())
		}),
		"S4-26": func(p *mpi.Process) error {
			k := mpi.NewKeyval(p, func(_ *mpi.Comm, v int) (int, bool, error) { return 99, false, nil }, nil)
			return duplicate(p, k, 7, -1)
		},
		"S4-27": func(p *mpi.Process) error {
			k := mpi.NewKeyval(p, func(_ *mpi.Comm, v int) (int, bool, error) { return v + 99, true, nil }, nil)
			return duplicate(p, k, 7, 106)
		},
		"S4-29": func(p *mpi.Process) error {
			v, keep, err := mpi.NullCopy(p.Self(), 5)
			return errors.Join(check(v == 0 && !keep && err == nil, "%d, %v, %v", v, keep, err),
				duplicate(p, mpi.NewKeyval(p, mpi.NullCopy[int], nil), 7, -1),
				duplicate(p, mpi.NewKeyval[int](p, nil, nil), 7, -1))
		},
		"S4-30": func(p *mpi.Process) error {
			v, keep, err := mpi.DupCopy(p.Self(), 5)
			return errors.Join(check(v == 5 && keep && err == nil, "%d, %v, %v", v, keep, err),
				duplicate(p, mpi.NewKeyval(p, mpi.DupCopy[int], nil), 7, 7))
		},
		"S4-31": func(p *mpi.Process) error {
			return errors.Join(duplicate(p, mpi.NewKeyval(p, mpi.DupCopy[int], mpi.NullDelete[int]), 1, 1),
				duplicate(p, mpi.NewKeyval(p, mpi.NullCopy[int], mpi.NullDelete[int]), 1, -1))
		},
		"S4-33": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			var errs []error
			for _, make := range others {
				d, err := make(c)
				if err != nil {
					return err
				}
				errs = append(errs, holds(a, d, -1), holds(b, d, -1), d.Free(), j.read(""))
			}
			return errors.Join(append(errs, c.Free())...)
		}),
		"S4-K4": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			d, r, err := c.Idup()
			if err != nil {
				return err
			}
			errs := []error{j.read("copy a1, copy b2"), a.Set(c, 5)} // before the request has completed
			_, err = r.Wait()
			return errors.Join(append(errs, err, holds(a, d, 10), d.Free(), c.Free())...)
		}),
	})
}

// duplicate checks the value of an attribute in a duplicate.
func duplicate(p *mpi.Process, k mpi.Keyval[int], v, want int) error {
	c, err := p.World().Dup()
	if err != nil {
		return err
	}
	if err := k.Set(c, v); err != nil {
		return err
	}
	d, err := c.Dup()
	if err != nil {
		return err
	}
	return errors.Join(holds(k, d, want), holds(k, c, v), d.Free(), c.Free())
}

func TestAttrDelete(t *testing.T) {
	statements(t, map[string]func(p *mpi.Process) error{
		"S4-40": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			return errors.Join(b.Delete(c), j.read("delete b2"), c.Free(), j.read("delete a1"))
		}),
		"S4-41": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			return errors.Join(c.Disconnect(), j.read("delete b2, delete a1"), ofClass(c.Barrier(), mpi.ErrComm))
		}),
		"S4-42": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			return errors.Join(a.Delete(c), j.read("delete a1"), c.Free(), j.read("delete b2"))
		}),
		"S4-43": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			return errors.Join(a.Set(c, 1), j.read("delete a1"), holds(a, c, 1), c.Free())
		}),
		"S4-44": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			var want []string
			for i := range 50 {
				if err := j.key("k").Set(c, i); err != nil {
					return err
				}
				want = append([]string{fmt.Sprint("delete k", i)}, want...)
			}
			return errors.Join(c.Free(), j.read(strings.Join(append(want, "delete b2", "delete a1"), ", ")))
		}),
		"S4-46": func(p *mpi.Process) error {
			k := mpi.NewKeyval(p, nil, mpi.NullDelete[int])
			return errors.Join(mpi.NullDelete(p.Self(), 1), k.Set(p.Self(), 1), k.Set(p.Self(), 2), k.Delete(p.Self()),
				holds(k, p.Self(), -1))
		},
		"S4-91": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			return errors.Join(a.Delete(c), a.Set(c, 3), j.read("delete a1"), c.Free(), j.read("delete a3, delete b2"))
		}),
		"S4-K2": func(p *mpi.Process) error {
			ran := false
			k := mpi.NewKeyval(p, nil, func(c *mpi.Comm, v int) error {
				ran = true
				return errors.Join(checkSum(c), c.Barrier(), check(c.Size() == p.World().Size(), "size %d", c.Size()))
			})
			c, err := p.World().Dup()
			if err != nil {
				return err
			}
			return errors.Join(k.Set(c, 1), k.Set(c, 2), k.Delete(c), k.Set(c, 3), c.Free(), check(ran, "no callback"))
		},
	})
}

func TestAttrDeleteFails(t *testing.T) {
	statements(t, map[string]func(p *mpi.Process) error{
		// The attribute that refuses stays, and those set before it; the others are gone. Other ranks' are all gone.
		"S4-45": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			last := j.key("last")
			here, log, va, vb := c.Rank() == 0, "delete last3, delete b2, delete a1", -1, -1
			if here {
				j.fail["delete b2"] = true
				log, va, vb = "delete last3, delete b2", 1, 2
			}
			errs := []error{last.Set(c, 3)}
			err := c.Free()
			errs = append(errs, check(errors.Is(err, errCallback) == here, "error %v at rank %d", err, c.Rank()),
				ofClass(err, mpi.ErrOther), j.read(log), holds(last, c, -1), holds(b, c, vb), holds(a, c, va), checkSum(c))
			delete(j.fail, "delete b2")
			return errors.Join(append(errs, c.Free(), ofClass(c.Barrier(), mpi.ErrComm))...)
		}),
		"S4-47": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			j.fail["delete a1"], j.fail["copy a1"] = true, true
			var errs []error
			for i, call := range []func() error{
				func() error { return a.Delete(c) },
				func() error { return a.Set(c, 5) },
				c.Free,
				c.Disconnect,
				func() error { _, err := c.Dup(); return err },
			} {
				err := call()
				errs = append(errs, check(errors.Is(err, errCallback), "call %d: %v", i, err), ofClass(err, mpi.ErrOther))
			}
			clear(j.fail)
			return errors.Join(append(errs, c.Free())...)
		}),
	})
}

func TestAttrFreeKey(t *testing.T) {
	statements(t, map[string]func(p *mpi.Process) error{
		"S4-50": func(p *mpi.Process) error {
			k := mpi.NewKeyval[int](p, nil, nil)
			return k.Free()
		},
		"S4-51": func(p *mpi.Process) error {
			k := mpi.NewKeyval[int](p, nil, nil)
			return errors.Join(k.Free(), check(k == mpi.Keyval[int]{} && k.Number() == mpi.KeyvalInvalid, "%v", k))
		},
		"S4-52": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			return errors.Join(a.Free(), j.read(""), c.Free())
		}),
		"S4-53": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			old := b
			return errors.Join(b.Set(c, 3), j.read("delete b2"), a.Free(), b.Free(), old.Delete(c), j.read("delete b3"),
				ofClass(old.Delete(c), mpi.ErrKeyval), c.Free(), j.read("delete a1"))
		}),
		"S4-54": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			old := a
			errs := []error{a.Set(j.p.Self(), 7), a.Free(), j.read(""), holds(old, c, 1), old.Delete(c), holds(old, c, -1),
				holds(old, j.p.Self(), 7), c.Free(), holds(old, j.p.Self(), 7), old.Delete(j.p.Self())}
			_, _, err := old.Get(j.p.Self())
			return errors.Join(append(errs, ofClass(err, mpi.ErrKeyval), j.read("delete a1, delete b2, delete a7"))...)
		}),
		"S4-55": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			old := a
			errs := []error{a.Free()}
			d, err := c.Dup()
			if err != nil {
				return err
			}
			errs = append(errs, j.read("copy a1, copy b2"), c.Free(), holds(old, d, 10))
			for range 100 {
				n := j.key("n")
				errs = append(errs, check(n.Number() != old.Number(), "key %d given out again", n.Number()))
			}
			return errors.Join(append(errs, d.Free(), j.read("delete b2, delete a1, delete b20, delete a10"))...)
		}),
		"S4-56": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			errs := []error{a.Free()}
			_, ok, err := a.Get(c)
			return errors.Join(append(errs, check(!ok, "found"), ofClass(err, mpi.ErrKeyval), ofClass(a.Set(c, 1), mpi.ErrKeyval),
				ofClass(a.Delete(c), mpi.ErrKeyval), ofClass(a.Free(), mpi.ErrKeyval), c.Free())...)
		}),
	})
}

func TestAttrSetGetDelete(t *testing.T) {
	statements(t, map[string]func(p *mpi.Process) error{
		"S4-60": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			// With lower and higher numbers than those before, and the lowest last.
			early, late := j.key("early"), j.key("late")
			errs := []error{late.Set(c, 4), early.Set(c, 3), a.Set(c, 5), j.read("delete a1")}
			for range 2 {
				errs = append(errs, holds(a, c, 5), holds(b, c, 2), holds(early, c, 3), holds(late, c, 4), c.Barrier())
			}
			return errors.Join(append(errs, c.Free())...)
		}),
		"S4-61": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			return errors.Join(a.Set(c, 3), j.read("delete a1"), holds(a, c, 3), c.Free())
		}),
		"S4-62": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			var none mpi.Keyval[int]
			return errors.Join(ofClass(none.Set(c, 1), mpi.ErrKeyval), c.Free())
		}),
		"S4-63": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			j.fail["delete a1"] = true
			err := a.Set(c, 3)
			errs := []error{ofClass(err, mpi.ErrOther), check(errors.Is(err, errCallback), "%v", err), holds(a, c, 1)}
			clear(j.fail)
			return errors.Join(append(errs, j.read("delete a1"), c.Free(), j.read("delete b2, delete a1"))...)
		}),
		"S4-70": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			v, ok, err := a.Get(c)
			return errors.Join(err, check(v == 1 && ok, "%d, %v", v, ok), c.Free())
		}),
		"S4-71": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			v, ok, err := a.Get(j.p.World())
			return errors.Join(err, check(v == 0 && !ok, "%d, %v", v, ok), c.Free())
		}),
		"S4-72": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			var none mpi.Keyval[int]
			_, ok, err := none.Get(c)
			return errors.Join(check(!ok, "found"), ofClass(err, mpi.ErrKeyval), c.Free())
		}),
		"S4-80": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			return errors.Join(a.Delete(c), holds(a, c, -1), holds(b, c, 2), c.Free())
		}),
		"S4-81": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			return errors.Join(b.Delete(c), j.read("delete b2"), c.Free())
		}),
		"S4-82": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			j.fail["delete a1"] = true
			err := a.Delete(c)
			clear(j.fail)
			return errors.Join(check(errors.Is(err, errCallback), "%v", err), holds(a, c, 1), c.Free())
		}),
		"S4-83": within(func(j *journal, c *mpi.Comm, a, b mpi.Keyval[int]) error {
			return errors.Join(a.Delete(j.p.World()), a.Delete(c), a.Delete(c), j.read("delete a1"), c.Free())
		}),
	})
}
