package attrs

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/internal/alloctest"
)

// window is an owner.
type window struct {
	attrs Cache[*window]
	name  string
}

func open(s *Space[*window], name string) *window {
	w := &window{name: name}
	w.attrs.Init(s, w)
	return w
}

// holds checks an attribute; want < 0: none.
func holds(t *testing.T, k Keyval[*window, int], w *window, want int) {
	t.Helper()
	v, ok, err := k.Get(&w.attrs)
	if err != nil || ok != (want >= 0) || ok && v != want {
		t.Errorf("attribute %d of %s: %d, %v, %v, want %d", k.Number(), w.name, v, ok, err, want)
	}
}

// unused checks that every freed key is gone, so that there are no references to it.
func unused(t *testing.T, s *Space[*window]) {
	t.Helper()
	if len(s.freeSlots) != s.nextSlot || s.running.Load() != 0 {
		t.Errorf("%d of %d numbers are free, %d callbacks under way", len(s.freeSlots), s.nextSlot, s.running.Load())
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestOwners: objects other than communicators have attributes too, each type with its own keys.
func TestOwners(t *testing.T) {
	t.Run("S4-K3", func(t *testing.T) {
		type datatype struct{ attrs Cache[*datatype] }
		var windows Space[*window]
		var datatypes Space[*datatype]
		w, d, e := open(&windows, "w"), &datatype{}, &datatype{}
		d.attrs.Init(&datatypes, d)
		e.attrs.Init(&datatypes, e)
		var gone []any
		ofWindow := NewKeyval(&windows, nil, func(w *window, v int) error { gone = append(gone, w, v); return nil })
		ofType := NewKeyval(&datatypes, DupCopy, func(d *datatype, v string) error { gone = append(gone, d, v); return nil })
		must(t, ofWindow.Set(&w.attrs, 1), ofType.Set(&d.attrs, "x"), d.attrs.Copy(&e.attrs))
		holds(t, ofWindow, w, 1)
		if v, ok, err := ofType.Get(&e.attrs); err != nil || !ok || v != "x" {
			t.Errorf("%q, %v, %v", v, ok, err)
		}
		must(t, ofWindow.Set(&w.attrs, 2), ofType.Delete(&d.attrs), w.attrs.Clear(), e.attrs.Clear())
		if want := []any{w, 1, d, "x", w, 2, e, "x"}; !slices.Equal(gone, want) {
			t.Errorf("gone: %v, want %v", gone, want)
		}
	})
}

func TestTypes(t *testing.T) {
	var s Space[*window]
	w := open(&s, "w")
	words := NewKeyval[*window, []string](&s, nil, nil)
	failure := NewKeyval[*window, error](&s, nil, nil)
	must(t, words.Set(&w.attrs, []string{"a", "b"}), failure.Set(&w.attrs, nil))
	if v, ok, err := words.Get(&w.attrs); err != nil || !ok || !slices.Equal(v, []string{"a", "b"}) {
		t.Errorf("%v, %v, %v", v, ok, err)
	}
	if v, ok, err := failure.Get(&w.attrs); err != nil || !ok || v != nil {
		t.Errorf("a nil error: %v, %v, %v", v, ok, err)
	}
	must(t, failure.Set(&w.attrs, ErrEndless))
	if v, _, _ := failure.Get(&w.attrs); v != ErrEndless {
		t.Errorf("%v", v)
	}
}

// TestInvalidKeys: every call rejects an invalid key, and changes nothing.
func TestInvalidKeys(t *testing.T) {
	var s, other Space[*window]
	w := open(&s, "w")
	held := NewKeyval[*window, int](&s, nil, nil)
	must(t, held.Set(&w.attrs, 7))
	freed := NewKeyval[*window, int](&s, nil, nil)
	stale := freed
	must(t, freed.Free())
	for name, k := range map[string]Keyval[*window, int]{
		"zero": {}, "freed": freed, "copy of a freed one": stale, "of another process": NewKeyval[*window, int](&other, nil, nil),
	} {
		_, ok, get := k.Get(&w.attrs)
		for call, err := range map[string]error{"Get": get, "Set": k.Set(&w.attrs, 1), "Delete": k.Delete(&w.attrs)} {
			if !errors.Is(err, ErrKeyval) || ok {
				t.Errorf("%s of a key that is %s: %v", call, name, err)
			}
		}
	}
	for _, k := range []*Keyval[*window, int]{&freed, &stale} {
		if err := k.Free(); !errors.Is(err, ErrKeyval) {
			t.Errorf("freed twice: %v", err)
		}
	}
	holds(t, held, w, 7)
	// The freed number is given out again, and the stale copy is not that key.
	next := NewKeyval[*window, int](&s, nil, nil)
	must(t, next.Set(&w.attrs, 8))
	if _, _, err := stale.Get(&w.attrs); next.Number() != stale.Number() || !errors.Is(err, ErrKeyval) {
		t.Errorf("numbers %d and %d: %v", next.Number(), stale.Number(), err)
	}
}

// TestKeyLifetime: a key lives until the last attribute with it is deleted, even if that was created by a copy.
func TestKeyLifetime(t *testing.T) {
	var s Space[*window]
	a, b := open(&s, "a"), open(&s, "b")
	var gone []string
	k := NewKeyval(&s, DupCopy[*window, int], func(w *window, v int) error {
		gone = append(gone, fmt.Sprint(w.name, v))
		return nil
	})
	must(t, k.Set(&a.attrs, 1))
	old := k
	must(t, k.Free())
	if k != (Keyval[*window, int]{}) || k.Number() != 0 {
		t.Errorf("freed, and still key %d", k.Number())
	}
	must(t, a.attrs.Copy(&b.attrs))
	holds(t, old, b, 1)
	if err := old.Set(&a.attrs, 2); !errors.Is(err, ErrKeyval) {
		t.Errorf("Set with a freed key: %v", err)
	}
	must(t, old.Delete(&a.attrs))
	holds(t, old, a, -1)
	if n := NewKeyval[*window, int](&s, nil, nil); n.Number() == old.Number() {
		t.Error("the number of a key that lives was given out again")
	} else {
		must(t, n.Free())
	}
	must(t, b.attrs.Clear())
	if want := []string{"a1", "b1"}; !slices.Equal(gone, want) {
		t.Errorf("gone: %v, want %v", gone, want)
	}
	unused(t, &s)
}

// TestClearOrder: attributes are deleted in reverse order of the last Set; an attribute whose callback fails stays,
// and so do those before it.
func TestClearOrder(t *testing.T) {
	var s Space[*window]
	w := open(&s, "w")
	refused := errors.New("refused")
	var order []int
	var refuse bool
	keys := make([]Keyval[*window, int], 5)
	for i := range keys {
		keys[i] = NewKeyval(&s, nil, func(_ *window, v int) error {
			order = append(order, v)
			if refuse && i == 1 {
				return refused
			}
			return nil
		})
		must(t, keys[i].Set(&w.attrs, i))
	}
	must(t, keys[2].Set(&w.attrs, 12)) // deletes 2, and is the newest now
	refuse = true
	if err := w.attrs.Clear(); err != refused {
		t.Errorf("%v, want %v", err, refused)
	}
	if want := []int{2, 12, 4, 3, 1}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	for i, want := range []int{0, 1, -1, -1, -1} {
		holds(t, keys[i], w, want)
	}
	order = nil
	if err := w.attrs.Drop(w); !errors.Is(err, refused) {
		t.Errorf("%v, want %v", err, refused)
	}
	if want := []int{1, 0}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	for i := range keys {
		must(t, keys[i].Free())
	}
	unused(t, &s)
}

// TestCopyFails: the copies are deleted again, and the original keeps its attributes.
func TestCopyFails(t *testing.T) {
	var s Space[*window]
	w, d := open(&s, "w"), open(&s, "d")
	failed := errors.New("failed")
	var log []string
	keys := make([]Keyval[*window, int], 4)
	for i := range keys {
		keys[i] = NewKeyval(&s, func(o *window, v int) (int, bool, error) {
			log = append(log, fmt.Sprint("copy ", o.name, v))
			if i == 2 {
				return 0, true, failed
			}
			return v * 10, true, nil
		}, func(o *window, v int) error {
			log = append(log, fmt.Sprint("delete ", o.name, v))
			return nil
		})
		must(t, keys[i].Set(&w.attrs, i+1))
	}
	if err := w.attrs.Copy(&d.attrs); !errors.Is(err, failed) {
		t.Errorf("%v, want %v", err, failed)
	}
	want := "copy w1, copy w2, copy w3, delete w20, delete w10"
	if got := strings.Join(log, ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for i := range keys {
		holds(t, keys[i], w, i+1)
		holds(t, keys[i], d, -1)
		must(t, keys[i].Delete(&w.attrs), keys[i].Free())
	}
	unused(t, &s)
}

// TestPanic: a panic of either callback, with an error or another value, becomes an error of the call.
func TestPanic(t *testing.T) {
	var s Space[*window]
	w, d := open(&s, "w"), open(&s, "d")
	cause := errors.New("cause")
	k := NewKeyval(&s, func(*window, int) (int, bool, error) { panic(cause) }, func(*window, int) error { panic("no") })
	must(t, k.Set(&w.attrs, 1))
	if err := w.attrs.Copy(&d.attrs); !errors.Is(err, cause) {
		t.Errorf("Copy: %v", err)
	}
	for name, err := range map[string]error{
		"Set": k.Set(&w.attrs, 2), "Delete": k.Delete(&w.attrs), "Clear": w.attrs.Clear(),
	} {
		var p *PanicError
		if !errors.As(err, &p) || p.Value != "no" || !strings.Contains(string(p.Stack), "TestPanic") {
			t.Errorf("%s: %v", name, err)
		}
	}
	holds(t, k, w, 1)
}

// TestGoexit: a callback that ends its goroutine, as t.FailNow does, leaves the cache consistent.
func TestGoexit(t *testing.T) {
	var s Space[*window]
	w := open(&s, "w")
	leave := true
	k := NewKeyval(&s, nil, func(*window, int) error {
		if leave {
			runtime.Goexit()
		}
		return nil
	})
	must(t, k.Set(&w.attrs, 1))
	for _, f := range []func() error{
		func() error { return k.Delete(&w.attrs) }, w.attrs.Clear, func() error { return k.Set(&w.attrs, 2) },
	} {
		var gone sync.WaitGroup
		gone.Go(func() { t.Errorf("came back: %v", f()) })
		gone.Wait()
	}
	holds(t, k, w, 1)
	leave = false
	must(t, w.attrs.Clear())
	holds(t, k, w, -1)
}

// TestEndless: callbacks without end fail with an error.
func TestEndless(t *testing.T) {
	var s Space[*window]
	w, d := open(&s, "w"), open(&s, "d")
	var k, fresh Keyval[*window, int]
	n, on := 0, true
	again := func(w *window, _ int) error {
		if n++; on {
			return k.Set(&w.attrs, n)
		}
		return nil
	}
	k = NewKeyval(&s, func(w *window, v int) (int, bool, error) { return v, true, w.attrs.Copy(&d.attrs) }, again)
	must(t, k.Set(&w.attrs, -1), k.Delete(&w.attrs)) // keeps the value set meanwhile
	holds(t, k, w, 1)
	for name, err := range map[string]error{
		"Set": k.Set(&w.attrs, 0), "Clear": w.attrs.Clear(), "Copy": w.attrs.Copy(&d.attrs),
	} {
		if !errors.Is(err, ErrEndless) {
			t.Errorf("%s: %v", name, err)
		}
	}
	on = false
	must(t, w.attrs.Clear(), d.attrs.Clear())

	// Another key every time.
	var every func(*window, int) error
	every = func(w *window, _ int) error {
		fresh = NewKeyval(&s, nil, every)
		return fresh.Set(&w.attrs, 0)
	}
	must(t, every(w, 0))
	if err := w.attrs.Drop(w); !errors.Is(err, ErrEndless) || w.attrs.newest() != nil {
		t.Errorf("Drop: %v", err)
	}
}

// TestBlockedCallback: a callback that blocks delays its own call and nothing else.
func TestBlockedCallback(t *testing.T) {
	var s Space[*window]
	w := open(&s, "w")
	entered, leave := make(chan bool), make(chan bool)
	k := NewKeyval(&s, nil, func(_ *window, v int) error {
		if v == 1 {
			entered <- true
			<-leave
		}
		return nil
	})
	near := NewKeyval[*window, int](&s, nil, nil)
	must(t, k.Set(&w.attrs, 1), near.Set(&w.attrs, 1))
	deleted := make(chan error, 1)
	go func() { deleted <- k.Delete(&w.attrs) }()
	<-entered
	holds(t, k, w, 1) // still there
	must(t, near.Delete(&w.attrs), near.Set(&w.attrs, 2), k.Delete(&w.attrs))
	holds(t, k, w, -1)
	must(t, k.Set(&w.attrs, 3), near.Free())
	close(leave)
	must(t, <-deleted)
	holds(t, k, w, 3)
	must(t, w.attrs.Clear(), k.Free())
	unused(t, &s)
}

// TestDisplacedValue: a value that the callback of a Set sets is displaced by that Set like any other. While its callback runs it
// still exists, and it stays if the callback fails. If another goroutine deletes it meanwhile, it does not return.
func TestDisplacedValue(t *testing.T) {
	const old, between, last = 1, 2, 3
	refused := errors.New("refused")
	for _, c := range []struct {
		name   string
		result error // of the callback of between
		delete bool
		after  int // the value afterwards; -1: none
	}{
		{"accepted", nil, false, last}, {"accepted, deleted", nil, true, last},
		{"refused", refused, false, between}, {"refused, deleted", refused, true, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Space[*window]
			w := open(&s, "w")
			armed, ran := true, 0
			var k Keyval[*window, int]
			k = NewKeyval(&s, nil, func(w *window, v int) error {
				switch {
				case v == old:
					return k.Set(&w.attrs, between)
				case v == between && armed:
					ran++
					holds(t, k, w, between)
					if c.delete {
						var other sync.WaitGroup
						other.Go(func() { must(t, k.Delete(&w.attrs)) })
						other.Wait()
						holds(t, k, w, -1)
					}
					return c.result
				}
				return nil
			})
			must(t, k.Set(&w.attrs, old))
			if err := k.Set(&w.attrs, last); err != c.result || ran != 1 {
				t.Errorf("%v after %d callbacks, want %v after 1", err, ran, c.result)
			}
			armed = false
			holds(t, k, w, c.after)
			must(t, w.attrs.Clear(), k.Free())
			unused(t, &s)
		})
	}
}

// TestGoroutines: many goroutines set, get and delete the same and other attributes, duplicate and clear. Every
// stored value is deleted once.
func TestGoroutines(t *testing.T) {
	const goroutines, rounds, many = 16, 300, 3
	var s Space[*window]
	w := open(&s, "w")
	var mu sync.Mutex
	live := map[int]int{} // value: stored and not deleted
	count := func(v, by int) {
		mu.Lock()
		live[v] += by
		mu.Unlock()
	}
	keys := make([]Keyval[*window, int], many)
	for i := range keys {
		keys[i] = NewKeyval(&s, func(_ *window, v int) (int, bool, error) {
			count(v, 1)
			return v, true, nil
		}, func(w *window, v int) error {
			count(v, -1)
			if v%7 == 0 {
				return keys[(i+1)%many].Delete(&w.attrs)
			}
			return nil
		})
	}
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			own := NewKeyval[*window, int](&s, nil, nil)
			for i := range rounds {
				k, v := keys[(g+i)%many], g*rounds+i
				count(v, 1)
				_, _, err := k.Get(&w.attrs)
				err = errors.Join(err, k.Set(&w.attrs, v), own.Set(&w.attrs, v))
				switch i % 4 {
				case 0:
					err = errors.Join(err, k.Delete(&w.attrs))
				case 1:
					d := open(&s, "d")
					err = errors.Join(err, w.attrs.Copy(&d.attrs), d.attrs.Clear())
				case 2:
					if g == 0 {
						err = errors.Join(err, w.attrs.Clear())
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
			must(t, own.Delete(&w.attrs), own.Free())
		})
	}
	all.Wait()
	must(t, w.attrs.Clear())
	for v, n := range live {
		if n != 0 {
			t.Errorf("value %d: %d more stored than deleted", v, n)
		}
	}
	for i := range keys {
		must(t, keys[i].Free())
	}
	unused(t, &s)
}

func TestGetAllocs(t *testing.T) {
	var s Space[*window]
	w := open(&s, "w")
	set, absent := NewKeyval[*window, string](&s, nil, nil), NewKeyval[*window, string](&s, nil, nil)
	must(t, set.Set(&w.attrs, "x"))
	if n := alloctest.Count(100, func() {
		v, ok, err := set.Get(&w.attrs)
		_, ok2, err2 := absent.Get(&w.attrs)
		if v != "x" || !ok || ok2 || err != nil || err2 != nil {
			t.Error(v, ok, ok2, err, err2)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGet(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var s Space[*window]
			w := open(&s, "w")
			var k Keyval[*window, int]
			for i := range n {
				k = NewKeyval[*window, int](&s, nil, nil)
				if err := k.Set(&w.attrs, i); err != nil {
					b.Fatal(err)
				}
			}
			sum := 0
			for b.Loop() {
				v, _, _ := k.Get(&w.attrs)
				sum += v
			}
			if sum != b.N*(n-1) {
				b.Fatal(sum)
			}
		})
	}
}
