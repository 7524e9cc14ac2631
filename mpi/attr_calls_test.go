package mpi_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/attrs"
	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestAttrReentry: callbacks use the communicator and its attributes: the one whose callback runs, those set just
// before and after it, and others.
func TestAttrReentry(t *testing.T) {
	statements(t, map[string]func(p *mpi.Process) error{"S4-48": func(p *mpi.Process) error {
		var keys [4]mpi.Keyval[int]
		var order []int
		for i := range keys {
			keys[i] = mpi.NewKeyval(p,
				func(c *mpi.Comm, v int) (int, bool, error) {
					// The neighbour behind is changed, and goes with its new value.
					err := errors.Join(holds(keys[i], c, v), checkSum(c))
					if i+1 < len(keys) && v < 10 {
						err = errors.Join(err, keys[i+1].Set(c, v+1))
					}
					return v * 10, true, err
				},
				func(c *mpi.Comm, v int) error {
					order = append(order, v)
					err := errors.Join(holds(keys[i], c, v), keys[i].Delete(c), holds(keys[i], c, -1))
					if i == 3 && v == 40 {
						err = errors.Join(err, keys[2].Delete(c), keys[0].Set(c, 50), keys[1].Set(c, 60))
					}
					return err
				})
		}
		c, err := p.World().Dup()
		if err != nil {
			return err
		}
		var errs []error
		for i, k := range keys {
			errs = append(errs, k.Set(c, i+1))
		}
		order = nil
		d, err := c.Dup()
		if err != nil {
			return err
		}
		errs = append(errs, check(slices.Equal(order, []int{2, 3, 4}), "replaced %v", order))
		for i, k := range keys {
			errs = append(errs, holds(k, c, i+1), holds(k, d, 10*(i+1)))
		}
		order = nil
		errs = append(errs, d.Free(), check(slices.Equal(order, []int{40, 30, 10, 20, 60, 50}), "freed %v", order))
		return errors.Join(append(errs, c.Free())...)
	}})
}

// TestAttrLocal: one rank changes attributes while the others do something else.
func TestAttrLocal(t *testing.T) {
	t.Run("S4-92", func(t *testing.T) {
		done := make(chan bool)
		mpitest.Run(t, 3, func(p *mpi.Process) error {
			if p.World().Rank() != 0 {
				<-done
				return nil
			}
			defer close(done)
			j := &journal{p: p}
			k := j.key("k")
			w := p.World()
			return errors.Join(k.Set(w, 1), k.Set(w, 2), holds(k, w, 2), k.Delete(w), holds(k, w, -1),
				k.Set(w, 3), k.Delete(w), k.Free())
		})
	})
}

func TestAttrGoroutines(t *testing.T) {
	statements(t, map[string]func(p *mpi.Process) error{"S4-93": func(p *mpi.Process) error {
		const goroutines, rounds = 16, 100
		c, err := p.World().Dup()
		if err != nil {
			return err
		}
		var mu sync.Mutex
		live := map[int]int{} // by value
		count := func(v, by int) error {
			mu.Lock()
			defer mu.Unlock()
			live[v] += by
			return nil
		}
		shared := mpi.NewKeyval(p, nil, func(_ *mpi.Comm, v int) error { return count(v, -1) })
		errs := make([]error, goroutines)
		var all sync.WaitGroup
		for g := range goroutines {
			all.Go(func() {
				own := mpi.NewKeyval[int](p, nil, nil)
				for i := range rounds {
					v := g*rounds + i
					_, _, err := shared.Get(c)
					err = errors.Join(err, count(v, 1), shared.Set(c, v), own.Set(c, i), holds(own, c, i))
					err = errors.Join(err, own.Delete(c), holds(own, c, -1))
					if i%3 == 0 {
						err = errors.Join(err, shared.Delete(c))
					}
					errs[g] = errors.Join(errs[g], err)
				}
				errs[g] = errors.Join(errs[g], own.Free())
			})
		}
		all.Wait()
		errs = append(errs, c.Free())
		for v, n := range live {
			errs = append(errs, check(n == 0, "value %d was set and not deleted, or twice: %d", v, n))
		}
		return errors.Join(errs...)
	}})
}

// TestAttrFinalize: Finalize first deletes the attributes of Self, in reverse order of setting, while communication still
// works; then those of other communicators, the newest first. Errors and panics are returned, and change nothing.
func TestAttrFinalize(t *testing.T) {
	statements(t, map[string]func(p *mpi.Process) error{"S4-K1": func(p *mpi.Process) error {
		var order []string
		key := func(name string, result func() error) mpi.Keyval[int] {
			return mpi.NewKeyval(p, nil, func(c *mpi.Comm, v int) error {
				order = append(order, fmt.Sprint(name, v))
				w := p.World()
				d, err := w.Dup()
				if err != nil {
					return err
				}
				return errors.Join(checkSum(w), checkSum(d), d.Free(), p.Finalize(), result())
			})
		}
		a, b := key("a", func() error { return nil }), key("b", func() error { return errCallback })
		y := key("y", func() error { return nil })
		x := key("x", func() error { panic("x") })
		left, err := p.World().Dup() // and never freed
		if err != nil {
			return err
		}
		errs := []error{
			a.Set(p.World(), 1), a.Set(left, 2), a.Set(p.Self(), 3), b.Set(p.Self(), 4), x.Set(p.Self(), 5), y.Set(p.Self(), 6),
		}
		err = p.Finalize()
		var panicked *attrs.PanicError
		return errors.Join(append(errs, ofClass(err, mpi.ErrOther), check(errors.Is(err, errCallback), "%v", err),
			check(errors.As(err, &panicked) && panicked.Value == "x", "%v", err),
			check(slices.Equal(order, []string{"y6", "x5", "b4", "a3", "a2", "a1"}), "order %v", order))...)
	}})
}

// TestAttrBadInput: invalid keys and communicators are rejected.
func TestAttrBadInput(t *testing.T) {
	var keys [2]mpi.Keyval[int]
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		keys[p.World().Rank()] = mpi.NewKeyval[int](p, nil, nil)
		if err := p.World().Barrier(); err != nil {
			return err
		}
		k := mpi.NewKeyval(p, mpi.DupCopy[int], nil)
		freed, err := p.Self().Dup()
		if err != nil {
			return err
		}
		errs := []error{k.Set(freed, 1), freed.Free()}
		for _, c := range []*mpi.Comm{nil, freed} {
			_, ok, err := k.Get(c)
			errs = append(errs, check(!ok, "found"), ofClass(err, mpi.ErrComm), ofClass(k.Set(c, 1), mpi.ErrComm),
				ofClass(k.Delete(c), mpi.ErrComm))
		}
		foreign := keys[1-p.World().Rank()]
		_, _, err = foreign.Get(p.World())
		return errors.Join(append(errs, ofClass(err, mpi.ErrKeyval), ofClass(foreign.Set(p.World(), 1), mpi.ErrKeyval),
			ofClass(foreign.Delete(p.World()), mpi.ErrKeyval))...)
	})
}

// TestAttrFrees: callbacks that free the communicator.
func TestAttrFrees(t *testing.T) {
	eachAlgorithm(t, []int{1, 3}, func(p *mpi.Process) error {
		var inside error
		k := mpi.NewKeyval(p,
			func(c *mpi.Comm, v int) (int, bool, error) { inside = c.Free(); return v, true, nil },
			func(c *mpi.Comm, v int) error { inside = c.Free(); return nil })
		c, err := p.World().Dup()
		if err != nil {
			return err
		}
		errs := []error{k.Set(c, 1)}
		d, err := c.Dup()
		if err != nil {
			return err
		}
		errs = append(errs, ofClass(inside, mpi.ErrComm)) // from the copy callback: not while it is duplicated
		errs = append(errs, d.Free(), ofClass(inside, mpi.ErrComm))
		// From Delete it is freed, with the attribute whose callback is under way.
		errs = append(errs, k.Delete(c), inside, ofClass(c.Barrier(), mpi.ErrComm))
		e, err := p.World().Dup()
		if err != nil {
			return err
		}
		return errors.Join(append(errs, e.Free(),
			ofClass(p.World().Disconnect(), mpi.ErrComm), ofClass(p.Self().Free(), mpi.ErrComm))...)
	})
}

// TestAttrPanics: a panic in a callback at one rank is an error of the call there, and of the others if it is collective.
func TestAttrPanics(t *testing.T) {
	eachAlgorithm(t, []int{1, 3}, func(p *mpi.Process) error {
		here := p.World().Rank() == 0
		panicking := here
		k := mpi.NewKeyval(p, func(_ *mpi.Comm, v int) (int, bool, error) {
			if panicking {
				panic("in copy")
			}
			return v, true, nil
		}, func(*mpi.Comm, int) error {
			if panicking {
				panic("in delete")
			}
			return nil
		})
		c, err := p.World().Dup()
		if err != nil {
			return err
		}
		errs := []error{k.Set(c, 1)}
		_, dup := c.Dup()
		panicked := []error{dup}
		if here {
			panicked = append(panicked, k.Set(c, 2), k.Delete(c))
			errs = append(errs, holds(k, c, 1))
		}
		panicked = append(panicked, c.Free()) // everywhere, though the others' attribute is gone
		for _, err := range panicked {
			var e *attrs.PanicError
			errs = append(errs, ofClass(err, mpi.ErrOther), check(errors.As(err, &e) == here, "at rank %d: %v", p.World().Rank(), err))
		}
		panicking = false
		return errors.Join(append(errs, checkSum(c), c.Free())...)
	})
}

// TestAttrClasses: a call that runs a callback has the class of the callback's error, and wraps that error itself.
func TestAttrClasses(t *testing.T) {
	cause := &mpi.Error{Class: mpi.ErrTag, Op: "Callback", Rank: -1}
	other := errors.New("other")
	for _, x := range []struct {
		fails func() error
		is    error
		class mpi.Class
	}{
		{func() error { return cause }, cause, mpi.ErrTag},
		{func() error { return fmt.Errorf("close: %w", cause) }, cause, mpi.ErrTag},
		{func() error { return errors.Join(other, cause) }, cause, mpi.ErrTag},
		{func() error { panic(cause) }, cause, mpi.ErrTag},
		{func() error { return other }, other, mpi.ErrOther},
		{func() error { return mpi.ErrTag }, mpi.ErrTag, mpi.ErrOther},
	} {
		mpitest.Run(t, 1, func(p *mpi.Process) error {
			copied := mpi.NewKeyval(p, func(_ *mpi.Comm, v int) (int, bool, error) { return v, true, x.fails() }, nil)
			deleted := mpi.NewKeyval(p, nil, func(*mpi.Comm, int) error { return x.fails() })
			c, err := p.World().Dup()
			if err != nil {
				return err
			}
			errs := []error{copied.Set(c, 1), deleted.Set(p.World(), 1)}
			_, dup := c.Dup()
			_, _, idup := c.Idup()
			for _, err := range []error{dup, idup, deleted.Delete(p.World()), deleted.Set(p.World(), 2), p.Finalize()} {
				errs = append(errs, ofClass(err, x.class), check(errors.Is(err, x.is), "%v", err))
			}
			return errors.Join(errs...)
		})
	}
}

// TestAttrRecurses: a copy callback that duplicates its communicator for ever, at all ranks, is an error at all of them.
func TestAttrRecurses(t *testing.T) {
	eachAlgorithm(t, []int{1, 2}, func(p *mpi.Process) error {
		k := mpi.NewKeyval(p, func(c *mpi.Comm, v int) (int, bool, error) {
			_, err := c.Dup()
			return v, true, err
		}, nil)
		c, err := p.World().Dup()
		if err != nil {
			return err
		}
		errs := []error{k.Set(c, 1)}
		d, err := c.Dup()
		return errors.Join(append(errs, ofClass(err, mpi.ErrOther), check(errors.Is(err, attrs.ErrEndless) && d == nil, "%v", err),
			k.Delete(c), checkSum(c), c.Free())...)
	})
}

// TestAttrBlocks: a callback in Free that waits for other ranks delays only Free.
func TestAttrBlocks(t *testing.T) {
	eachAlgorithm(t, []int{1, 3}, func(p *mpi.Process) error {
		w := p.World()
		k := mpi.NewKeyval(p, nil, func(*mpi.Comm, int) error {
			for r := 1; w.Rank() == 0 && r < w.Size(); r++ {
				if _, err := mpi.Recv(w, []int{0}, r, 1); err != nil {
					return err
				}
			}
			return nil
		})
		c, err := w.Dup()
		if err != nil {
			return err
		}
		errs := []error{k.Set(c, 1)}
		freed := make(chan error, 1)
		go func() { freed <- c.Free() }()
		if w.Rank() != 0 {
			errs = append(errs, k.Set(w, 1), mpi.Send(w, []int{1}, 0, 1), k.Delete(w))
		}
		return errors.Join(append(errs, <-freed, ofClass(c.Free(), mpi.ErrComm), checkSum(w))...)
	})
}

// TestIdup runs Idups beside other collectives and each other, on several communicators, and waits for them in any
// order. The original may be freed meanwhile.
func TestIdup(t *testing.T) {
	eachAlgorithm(t, []int{1, 2, 4}, func(p *mpi.Process) error {
		a, err := p.World().Dup()
		if err != nil {
			return err
		}
		var comms []*mpi.Comm
		var reqs []mpi.Request
		for i := range 12 {
			from := []*mpi.Comm{a, p.World()}[i%2]
			d, r, err := from.Idup()
			if err != nil {
				return err
			}
			comms, reqs = append(comms, d), append(reqs, r)
			if err := checkSum(from); err != nil {
				return err
			}
			if i == 5 {
				e, err := a.Dup()
				if err != nil {
					return err
				}
				comms, reqs = append(comms, e), append(reqs, mpi.Request{})
			}
		}
		errs := []error{a.Free()}
		if p.World().Rank()%2 == 0 {
			slices.Reverse(reqs)
		}
		errs = append(errs, mpi.Waitall(reqs, nil))
		for _, c := range comms {
			errs = append(errs, checkSum(c), c.Free())
		}
		return errors.Join(errs...)
	})
}

// TestDisconnect waits for receives and sends that Free would end.
func TestDisconnect(t *testing.T) {
	eachAlgorithm(t, []int{2, 3}, func(p *mpi.Process) error {
		c, err := p.World().Dup()
		if err != nil {
			return err
		}
		n := c.Size()
		next, prev := (c.Rank()+1)%n, (c.Rank()+n-1)%n
		got, out := make([]int32, 50000), numbers(50000, c.Rank())
		recv, err := mpi.Irecv(c, got, prev, 1)
		if err != nil {
			return err
		}
		// What is not of this communicator is not waited for.
		other, err := mpi.Irecv(p.World(), make([]int32, 1), prev, 9)
		if err != nil {
			return err
		}
		send, err := mpi.Isend(c, out, next, 1)
		if err != nil {
			return err
		}
		if err := c.Disconnect(); err != nil {
			return err
		}
		_, done, err := recv.Test()
		errs := []error{want("message", err, got, numbers(50000, prev)), check(done, "the receive is under way"), other.Cancel()}
		_, err = send.Wait()
		_, err2 := other.Wait()
		return errors.Join(append(errs, err, err2, ofClass(c.Barrier(), mpi.ErrComm))...)
	})
}

func TestAttrAllocs(t *testing.T) {
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		k, absent := mpi.NewKeyval[string](p, nil, nil), mpi.NewKeyval[string](p, nil, nil)
		if err := k.Set(p.World(), "x"); err != nil {
			return err
		}
		var err error
		n := alloctest.Count(100, func() {
			v, ok, err1 := k.Get(p.World())
			_, ok2, err2 := absent.Get(p.World())
			if v != "x" || !ok || ok2 || err1 != nil || err2 != nil {
				err = errors.New("not as set")
			}
		})
		return errors.Join(err, check(n == 0, "%v allocations", n))
	})
}

func BenchmarkAttrGet(b *testing.B) {
	mpitest.Run(b, 1, func(p *mpi.Process) error {
		k := mpi.NewKeyval[int](p, nil, nil)
		if err := k.Set(p.World(), 1); err != nil {
			return err
		}
		sum := 0
		for b.Loop() {
			v, _, _ := k.Get(p.World())
			sum += v
		}
		return check(sum == b.N, "sum %d of %d", sum, b.N)
	})
}

// TestIdupsOfSelf waits for Idups of a communicator of one rank while others, of all ranks, are pending.
func TestIdupsOfSelf(t *testing.T) {
	eachAlgorithm(t, []int{2, 4}, idupsOfSelf)
}

func idupsOfSelf(p *mpi.Process) error {
	var comms []*mpi.Comm
	var reqs []mpi.Request
	for i := range 100 {
		c, r, err := p.World().Idup()
		if err != nil {
			return err
		}
		comms, reqs = append(comms, c), append(reqs, r)
		if i%10 != 9 {
			continue
		}
		s, r, err := p.Self().Idup()
		if err != nil {
			return err
		}
		if _, err := r.Wait(); err != nil {
			return err
		}
		comms = append(comms, s)
	}
	errs := []error{mpi.Waitall(reqs, nil)}
	for _, c := range comms {
		errs = append(errs, c.Free())
	}
	return errors.Join(errs...)
}
