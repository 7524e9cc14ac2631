package attrs

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
)

// The model implements the rules of the package in their simplest form: the attached values, their order, and the running
// callbacks. Random programs run on it and on a Cache in lockstep. Callbacks are such programs too, so calls nest arbitrarily.
type model struct {
	t      *testing.T
	script []byte // rest of the program
	space  Space[*window]
	w      *window
	keys   [3]Keyval[*window, int]
	freed  [3]bool

	values int            // so far; each value is used once
	at     [3]int         // value by key; 0: none
	order  []int          // attached values, the newest last
	age    map[int]int    // by value: number of values attached before it
	going  map[int]bool   // values whose delete callback is running
	ended  map[int]bool   // values whose delete callback has succeeded
	calls  []*expectation // of the calls in progress, the innermost last
}

// expectation is the next callback of a call: for which value, and what to do when it has returned.
type expectation struct {
	value int
	after func(err error)
}

var errScript = errors.New("the program says so")

func newModel(t *testing.T, script []byte) *model {
	m := &model{t: t, script: script, age: map[int]int{}, going: map[int]bool{}, ended: map[int]bool{}}
	m.w = open(&m.space, "w")
	for i := range m.keys {
		m.keys[i] = NewKeyval(&m.space,
			func(_ *window, v int) (int, bool, error) { return -v, true, m.copied(i, v) },
			func(_ *window, v int) error {
				if v < 0 {
					return nil // a duplicate's
				}
				return m.deleted(v)
			})
	}
	return m
}

func (m *model) next(n int) int {
	if len(m.script) == 0 {
		return 0
	}
	b := m.script[0]
	m.script = m.script[1:]
	return int(b) % n
}

// run runs a piece of the program and says how it ends.
func (m *model) run() error {
	for n := m.next(4); n > 0 && len(m.script) > 0; n-- {
		m.step()
	}
	switch m.next(8) {
	case 1, 2:
		return errScript
	case 3:
		panic(errScript)
	}
	return nil
}

func (m *model) step() {
	k := m.next(len(m.keys))
	switch m.next(9) {
	case 0, 1, 2:
		m.set(k)
	case 3, 4, 5:
		m.delete(k)
	case 6:
		m.clear()
	case 7:
		d := open(&m.space, "d")
		if err := m.w.attrs.Copy(&d.attrs); err != nil && !errors.Is(err, errScript) {
			m.t.Errorf("Copy: %v", err)
		}
		must(m.t, d.attrs.Drop(d))
	case 8:
		stale := m.keys[k]
		if err := m.keys[k].Free(); (err == nil) == m.freed[k] {
			m.t.Errorf("Free of a key, freed before: %v: %v", m.freed[k], err)
		}
		m.keys[k], m.freed[k] = stale, true
	}
	m.compare()
}

func (m *model) set(k int) {
	m.values++
	v := m.values
	var want error
	e := &expectation{}
	old := m.at[k]
	switch {
	case m.freed[k]:
		want = ErrKeyval
	case old == 0 || m.going[old]:
		m.put(k, v)
	default:
		var replace func(old int)
		replace = func(old int) {
			e.value = old
			e.after = func(err error) {
				now := m.at[k]
				switch want = err; {
				case err != nil:
				case now == 0 || now == old || m.going[now]:
					m.put(k, v)
				default: // the callback has set another value
					replace(now)
				}
			}
		}
		replace(old)
	}
	m.call(e, func() error { return m.keys[k].Set(&m.w.attrs, v) }, &want)
}

func (m *model) delete(k int) {
	e := &expectation{}
	var want error
	// A freed key lives as long as there is a reference to it, by an attribute or by a Copy in progress.
	err := m.keys[k].k.valid(&m.w.attrs)
	if err != nil && (!m.freed[k] || m.at[k] != 0) {
		m.t.Errorf("key %d with value %d, freed %v: %v", k, m.at[k], m.freed[k], err)
	}
	v := m.at[k]
	switch {
	case err != nil:
		want = ErrKeyval
	case v != 0 && m.going[v]:
		m.put(k, 0)
	case v != 0:
		e.value = v
		e.after = func(err error) {
			if want = err; err == nil && m.at[k] == v {
				m.put(k, 0)
			}
		}
	}
	m.call(e, func() error { return m.keys[k].Delete(&m.w.attrs) }, &want)
}

func (m *model) clear() {
	e := &expectation{}
	var want error
	var expect func()
	expect = func() {
		e.value = 0
		for len(m.order) > 0 {
			v := m.order[len(m.order)-1]
			k := slices.Index(m.at[:], v)
			if m.going[v] {
				m.put(k, 0)
				continue
			}
			e.value = v
			e.after = func(err error) {
				if want = err; err != nil {
					return
				}
				if m.at[k] == v {
					m.put(k, 0)
				}
				expect()
			}
			return
		}
	}
	expect()
	m.call(e, m.w.attrs.Clear, &want)
}

// put attaches a value to a key as the youngest, or takes off what is there.
func (m *model) put(k, v int) {
	m.order = slices.DeleteFunc(m.order, func(o int) bool { return o == m.at[k] })
	if m.at[k] = v; v != 0 {
		m.order = append(m.order, v)
		m.age[v] = len(m.age)
	}
}

func (m *model) call(e *expectation, f func() error, want *error) {
	m.calls = append(m.calls, e)
	err := f()
	m.calls = m.calls[:len(m.calls)-1]
	if e.value != 0 {
		m.t.Errorf("the callback of %d did not run", e.value)
	}
	if !errors.Is(err, *want) || err != nil && *want == nil {
		m.t.Errorf("got %v, want %v", err, *want)
	}
}

// deleted is the delete callback.
func (m *model) deleted(v int) (err error) {
	e := m.calls[len(m.calls)-1]
	if e.value != v || m.ended[v] || m.going[v] {
		m.t.Errorf("callback of %d, want one of %d; succeeded before: %v, under way: %v", v, e.value, m.ended[v], m.going[v])
	}
	e.value = 0
	m.going[v] = true
	defer func() {
		if p := recover(); p != nil {
			err = errScript
			defer panic(p)
		}
		delete(m.going, v)
		m.ended[v] = err == nil
		e.after(err)
	}()
	m.compare()
	return m.run()
}

// copied is the copy callback.
func (m *model) copied(k, v int) error {
	if m.at[k] != v {
		m.t.Errorf("asked to copy %d, and %d is attached", v, m.at[k])
	}
	return m.run()
}

// compare checks what is attached.
func (m *model) compare() {
	for i, k := range m.keys {
		v, ok, _ := k.Get(&m.w.attrs)
		if v != m.at[i] || ok != (v != 0) {
			m.t.Errorf("attribute %d is %d, %v, want %d", i, v, ok, m.at[i])
		}
	}
	if n := len(m.order); n > 0 {
		if a := m.w.attrs.newest(); *a.value.(*int) != m.order[n-1] {
			m.t.Errorf("the youngest is %d, want %d", *a.value.(*int), m.order[n-1])
		}
	}
}

// play runs a program to its end, and checks that nothing is left over then.
func play(t *testing.T, script []byte) {
	m := newModel(t, script)
	for len(m.script) > 0 && !t.Failed() {
		m.step()
	}
	m.clear()
	for i := range m.keys {
		if !m.freed[i] {
			must(t, m.keys[i].Free())
		}
	}
	unused(t, &m.space)
	if t.Failed() {
		t.Logf("program: %q", script)
	}
}

func FuzzCallbacks(f *testing.F) {
	f.Add([]byte{0, 0, 0, 3, 1, 0, 0, 0})
	f.Add([]byte("set, and delete, and set again"))
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) <= 300 { // calls nest as deep as the program is long
			play(t, script)
		}
	})
}

func TestRandomCallbacks(t *testing.T) {
	seed := soaktest.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		script := make([]byte, rnd.IntN(200))
		for i := range script {
			script[i] = byte(rnd.Uint32())
		}
		if play(t, script); t.Failed() {
			return
		}
	}
}
