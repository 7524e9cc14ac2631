package proto

import (
	"errors"
	"testing"
)

// TestForget ends a context in which everything waits, and uses its number again.
func TestForget(t *testing.T) {
	es := open(t, 2, nil, nil)
	a, b := es[0], es[1]
	gone := errors.New("gone")
	old := func(r Route) Route { r.Context = 7; return r }
	next := func(r Route) Route { r.Context = 7 | 1<<ContextBits; return r }

	posted := b.Irecv(old(from(0, 1)), make([]byte, 10))
	probe := make(chan error, 1)
	go func() {
		_, _, err := b.Probe(old(from(0, 77)), true)
		probe <- err
	}()
	sleepers(b, 1)
	var sends []Handle
	send := func(r Route, n int, m Mode) {
		h, err := a.Isend(r, make([]byte, n), m)
		if err != nil {
			t.Fatal(err)
		}
		sends = append(sends, h)
	}
	send(old(to(0, 1, 2)), 10, Standard)
	send(old(to(0, 1, 2)), 10, Synchronous)
	send(old(to(0, 1, 2)), 50000, Standard)
	for {
		if _, n := b.Waiting(7); n == len(sends) {
			break
		}
	}
	b.Forget(7, gone)
	if _, err := b.Wait(posted); !errors.Is(err, gone) {
		t.Errorf("receive that waited: %v", err)
	}
	if err := <-probe; !errors.Is(err, ErrEnded) {
		t.Errorf("probe that waited: %v", err)
	}
	// These come late.
	send(old(to(0, 1, 3)), 10, Standard)
	send(old(to(0, 1, 3)), 10, Synchronous)
	send(old(to(0, 1, 3)), 50000, Standard)
	send(next(to(0, 1, 3)), 4, Standard)
	st, err := b.Recv(next(from(AnySource, AnyTag)), make([]byte, 100))
	if err != nil || st != (Status{Source: 0, Tag: 3, Bytes: 4}) {
		t.Errorf("the context's next use: %+v, %v", st, err)
	}
	if err := b.Settle(); err != nil {
		t.Fatal(err)
	}
	for i, h := range sends {
		if _, err := a.Wait(h); err != nil {
			t.Errorf("send %d: %v", i, err)
		}
	}
	if _, err := b.Recv(old(from(0, 3)), nil); !errors.Is(err, ErrEnded) {
		t.Errorf("receive in a context that has ended: %v", err)
	}
	if _, _, err := b.Probe(old(from(0, 3)), false); !errors.Is(err, ErrEnded) {
		t.Errorf("probe in a context that has ended: %v", err)
	}
	if b.store.held != 0 {
		t.Errorf("%d bytes are still held", b.store.held)
	}
}

// TestExpect: between Expect and Agreed messages of any use of a number come in; then those of the last one are dropped.
func TestExpect(t *testing.T) {
	es := open(t, 2, nil, nil)
	a, b := es[0], es[1]
	in := func(context uint32, r Route) Route { r.Context = context; return r }
	const number, last, next = 7, 7 | 9<<ContextBits, 7 | 3<<ContextBits
	b.Forget(last, ErrEnded)
	b.Expect(number)
	late, err := a.Isend(in(last, to(0, 1, 1)), make([]byte, 10), Synchronous)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Send(in(next, to(0, 1, 1)), make([]byte, 5), Standard); err != nil {
		t.Fatal(err)
	}
	if err := b.pokeOnce(); err != nil {
		t.Fatal(err)
	}
	b.Agreed(next, true)
	if st, err := b.Recv(in(next, from(0, AnyTag)), make([]byte, 5)); err != nil || st.Bytes != 5 {
		t.Errorf("%+v, %v", st, err)
	}
	if _, err := a.Wait(late); err != nil {
		t.Error(err)
	}
	if r, m := b.Waiting(last); r+m != 0 {
		t.Errorf("%d receives and %d messages of the last use wait", r, m)
	}
	b.Expect(number)
	b.Agreed(next+1<<ContextBits, false)
	for _, context := range []uint32{next - 1<<ContextBits, next + 1<<ContextBits} {
		if _, err := b.Recv(in(context, from(0, AnyTag)), nil); !errors.Is(err, ErrEnded) {
			t.Errorf("context %#x: %v", context, err)
		}
	}
}

// TestFreeActive lets go of operations under way: they complete, and their places are used again.
func TestFreeActive(t *testing.T) {
	es := open(t, 2, nil, nil)
	a, b := es[0], es[1]
	for range 200 {
		h, err := a.Isend(to(0, 1, 1), make([]byte, 20000), Standard)
		if err != nil {
			t.Fatal(err)
		}
		p := a.SendInit(to(0, 1, 1), make([]byte, 20000), Synchronous)
		if err := a.Start(p); err != nil {
			t.Fatal(err)
		}
		for _, h := range []Handle{h, p} {
			if err := a.Free(h); err != nil {
				t.Fatal(err)
			}
			if err := a.Free(h); !errors.Is(err, ErrStale) {
				t.Fatalf("freed twice: %v", err)
			}
			if _, err := a.Wait(h); !errors.Is(err, ErrStale) {
				t.Fatalf("waited for after it was freed: %v", err)
			}
		}
		for range 2 {
			if _, err := b.Recv(from(0, 1), make([]byte, 20000)); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.pokeOnce(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(a.requests); n != 1 {
		t.Errorf("%d blocks of requests were made for two at a time", n)
	}
}

// TestWaitTogether lets several goroutines wait for one request. One gets it, the others are told.
func TestWaitTogether(t *testing.T) {
	es := open(t, 2, nil, nil)
	h := es[0].Irecv(from(1, 1), nil)
	errs := make(chan error, 3)
	for range cap(errs) {
		go func() {
			_, err := es[0].Wait(h)
			errs <- err
		}()
	}
	sleepers(es[0], cap(errs))
	if err := es[1].Send(to(1, 0, 1), nil, Standard); err != nil {
		t.Fatal(err)
	}
	good := 0
	for range cap(errs) {
		switch err := <-errs; {
		case err == nil:
			good++
		case !errors.Is(err, ErrStale):
			t.Error(err)
		}
	}
	if good != 1 {
		t.Errorf("%d goroutines got the request", good)
	}
}

// TestProbeMovesBlocks: a program that only probes lets its large receives go on.
func TestProbeMovesBlocks(t *testing.T) {
	es := open(t, 2, nil, nil)
	each(t, es, func(self int, e *Engine) error {
		if self == 0 {
			if err := e.Send(to(0, 1, 1), make([]byte, 100000), Standard); err != nil {
				return err
			}
			return e.Send(to(0, 1, 2), nil, Standard)
		}
		h := e.Irecv(from(0, 1), make([]byte, 100000))
		for {
			if _, ok, err := e.Probe(from(0, 2), false); ok || err != nil {
				_, werr := e.Wait(h)
				return errors.Join(err, werr)
			}
		}
	})
}
