package proto

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/perf"
)

// setModel is a slice of requests that a test changes as programs do. Some of the requests have
// completed.
type setModel struct {
	t    *testing.T
	e    *Engine
	rnd  *rand.Rand
	hs   []Handle
	done map[Handle]bool // true: it has completed; false: it is active
}

func (m *setModel) start() Handle {
	h := m.e.Requests().StartGrequest()
	m.done[h] = false
	return h
}

// change completes, replaces, moves, adds, removes or collects requests.
func (m *setModel) change() {
	i, k := m.rnd.IntN(len(m.hs)), m.rnd.IntN(len(m.hs))
	switch h := m.hs[i]; m.rnd.IntN(9) {
	case 0:
		m.hs[i], m.hs[k] = m.hs[k], m.hs[i]
	case 1:
		if len(m.hs) > 2 {
			m.hs[i] = m.hs[len(m.hs)-1]
			m.hs = m.hs[:len(m.hs)-1]
			m.drop(h)
		}
	case 2:
		m.hs = append(m.hs, m.start())
	case 3:
		m.hs[i] = m.start()
		m.drop(h)
	case 4:
		m.hs = slices.Clone(m.hs)
	case 5:
		m.drop(h)
		m.hs[i] = Handle{}
	default:
		m.complete(h)
	}
}

func (m *setModel) complete(h Handle) {
	if h.r != nil {
		m.e.Requests().CompleteGrequest(h, nil)
		m.done[h] = true
	}
}

// drop takes a request out of the model.
func (m *setModel) drop(h Handle) {
	if h.r == nil {
		return
	}
	m.complete(h)
	if _, err := m.e.Requests().Wait(h); err != nil {
		m.t.Fatal(err)
	}
	delete(m.done, h)
}

// counts returns the numbers of handles that are active, and that have completed.
func (m *setModel) counts() (active, completed int) {
	for _, done := range m.done {
		if done {
			completed++
		} else {
			active++
		}
	}
	return active, completed
}

// collected checks that a call has collected a request that had completed.
func (m *setModel) collected(before []Handle, i int) {
	m.t.Helper()
	h := before[i]
	if !m.done[h] || m.hs[i].r != nil {
		m.t.Fatalf("index %d of %d: completed %v, handle %v", i, len(before), m.done[h], m.hs[i])
	}
	delete(m.done, h)
}

// wait collects with one of the calls. It does not block if nothing has completed.
func (m *setModel) wait() {
	m.t.Helper()
	active, completed := m.counts()
	before, ctx := slices.Clone(m.hs), context.Background()
	report := func(i int, _ Status, err error) {
		if err != nil {
			m.t.Fatal(err)
		}
		m.collected(before, i)
	}
	switch any, some := m.rnd.IntN(2) == 0, m.rnd.IntN(2) == 0; {
	case any:
		i, _, ok, err := m.e.Requests().TestAny(perf.Testany, m.hs)
		if err != nil || ok && i < 0 != (active+completed == 0) {
			m.t.Fatalf("TestAny: %d, %v, %v; %d are active and %d completed", i, ok, err, active, completed)
		}
		if i >= 0 {
			m.collected(before, i)
		}
	case completed == 0 && active != 0:
	case some:
		if n, err := m.e.Requests().WaitSome(ctx, perf.Waitsome, m.hs, report); err != nil || n == 0 || n < 0 != (completed == 0) {
			m.t.Fatalf("WaitSome: %d, %v; %d are active and %d completed", n, err, active, completed)
		}
	default:
		i, _, err := m.e.Requests().WaitAny(ctx, perf.Waitany, m.hs)
		if err != nil || i < 0 != (completed == 0) {
			m.t.Fatalf("WaitAny: %d, %v; %d are active and %d completed", i, err, active, completed)
		}
		if i >= 0 {
			m.collected(before, i)
		}
	}
}

// TestWaitSets waits for requests of slices that change between the calls. Nothing that has
// completed is lost, nothing is collected twice, and no call blocks while something has completed.
func TestWaitSets(t *testing.T) {
	e := open(t, 1, nil, nil)[0]
	for seed := range uint64(20) {
		m := &setModel{t: t, e: e, rnd: rand.New(rand.NewPCG(seed, 1)), done: map[Handle]bool{}}
		for range 2 + m.rnd.IntN(150) {
			m.hs = append(m.hs, m.start())
		}
		for range 500 {
			for range m.rnd.IntN(8) {
				m.change()
			}
			m.wait()
		}
		for _, h := range slices.Clone(m.hs) {
			m.complete(h)
		}
		for len(m.done) != 0 {
			m.wait()
		}
		if i, _, err := e.Requests().WaitAny(context.Background(), perf.Waitany, m.hs); i != -1 || err != nil {
			t.Fatalf("of no requests: %d, %v", i, err)
		}
	}
}

// TestWaitSetSleeps: a goroutine that sleeps until any of many requests completes is woken by each,
// also by one that another goroutine collects.
func TestWaitSetSleeps(t *testing.T) {
	e := open(t, 1, nil, nil)[0]
	hs := make([]Handle, 1000)
	for i := range hs {
		hs[i] = e.Requests().StartGrequest()
	}
	type result struct {
		i   int
		err error
	}
	results := make(chan result)
	wait := func() {
		i, _, err := e.Requests().WaitAny(context.Background(), perf.Waitany, hs)
		results <- result{i, err}
	}
	for _, i := range []int{999, 0, 500} {
		go wait()
		awaitSleepers(e, 1)
		e.Requests().CompleteGrequest(hs[i], nil)
		if r := <-results; r != (result{i, nil}) {
			t.Fatalf("%+v, want %d", r, i)
		}
		hs[i] = e.Requests().StartGrequest()
	}
	go wait()
	awaitSleepers(e, 1)
	stolen := hs[7]
	e.lock()
	e.requests.complete(stolen.r, nil)
	_, err := e.requests.collect(stolen.r)
	e.unlock()
	if r := <-results; r != (result{7, ErrStale}) || err != nil {
		t.Errorf("collected by another: %+v, %v", r, err)
	}
	for _, h := range hs {
		if h.r != nil {
			e.Requests().CompleteGrequest(h, nil)
		}
	}
}

// TestWaitSetReplaced: a call whose slice the engine has forgotten, since others wait for more
// slices than it remembers, finds what completes, however the looks of these calls at their handles
// alternate.
func TestWaitSetReplaced(t *testing.T) {
	e := open(t, 1, nil, nil)[0]
	slice := func(n int) []Handle {
		hs := make([]Handle, n)
		for i := range hs {
			hs[i] = e.Requests().StartGrequest()
		}
		return hs
	}
	for done := range 100 {
		hs := slice(100)
		first := e.requests.sets.waitFor(hs)
		var last anyWait
		for i := range rememberedSets {
			last = e.requests.sets.waitFor(slice(smallSet + 1 + 3*i))
		}
		e.Requests().CompleteGrequest(hs[done], nil)
		found := allActive
		for range len(hs) {
			if i := last.find(); i != allActive {
				t.Fatalf("the last call found %d", i)
			}
			if found = first.find(); found != allActive {
				break
			}
		}
		if found != done {
			t.Fatalf("handle %d has completed, found %d", done, found)
		}
	}
}

// TestIsendIntoSet: a send that has ended at once is found by the next call that waits for any of many
// requests, if it takes the place of a request which such a call has collected.
func TestIsendIntoSet(t *testing.T) {
	e := open(t, 2, nil, nil)[0]
	if err := e.Send(to(0, 1, 1), nil, Standard); err != nil { // connects, so that the next send ends at once
		t.Fatal(err)
	}
	hs := make([]Handle, 100)
	for i := range hs {
		hs[i] = e.Requests().StartGrequest()
	}
	testAny := func() int {
		i, _, _, err := e.Requests().TestAny(perf.Testany, hs)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	const place = 50
	e.Requests().CompleteGrequest(hs[place], nil)
	found := -1
	for range hs {
		if found = testAny(); found == place {
			break
		}
	}
	for range 5 { // the next call looks at other handles
		testAny()
	}
	h, err := e.Isend(to(0, 1, 1), make([]byte, 8), Standard)
	if hs[place] = h; err != nil || found != place {
		t.Fatalf("found %d, %v", found, err)
	}
	if i := testAny(); i != place {
		t.Errorf("found %d, want %d", i, place)
	}
	for _, h := range hs {
		if h.r != nil {
			e.Requests().CompleteGrequest(h, nil)
		}
	}
}
