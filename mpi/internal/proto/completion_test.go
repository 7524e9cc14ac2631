package proto

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

// TestEndContext ends a context with posted receives, a probe and unexpected messages, and uses its
// number again.
func TestEndContext(t *testing.T) {
	es := open(t, 2, nil, nil)
	a, b := es[0], es[1]
	ended := errors.New("ended")
	old := func(r Route) Route { r.Context = 7; return r }
	next := func(r Route) Route { r.Context = 7 | 1<<ContextBits; return r }

	posted := b.Irecv(old(from(0, 1)), make([]byte, 10))
	probe := make(chan error, 1)
	go func() {
		_, _, err := b.Probes().Probe(context.Background(), old(from(0, 77)), true)
		probe <- err
	}()
	awaitSleepers(b, 1)
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
		if _, n := b.Contexts().QueueLengths(7); n == len(sends) {
			break
		}
	}
	b.Contexts().Free(7, ended)
	if _, err := b.Requests().Wait(posted); !errors.Is(err, ended) {
		t.Errorf("posted receive: %v", err)
	}
	if err := <-probe; !errors.Is(err, ErrContextEnded) {
		t.Errorf("blocked probe: %v", err)
	}
	// These arrive late.
	send(old(to(0, 1, 3)), 10, Standard)
	send(old(to(0, 1, 3)), 10, Synchronous)
	send(old(to(0, 1, 3)), 50000, Standard)
	send(next(to(0, 1, 3)), 4, Standard)
	st, err := b.Recv(next(from(AnySource, AnyTag)), make([]byte, 100))
	if err != nil || st != (Status{Source: 0, Tag: 3, Bytes: 4}) {
		t.Errorf("the context's next use: %+v, %v", st, err)
	}
	if err := b.FlushSends(); err != nil {
		t.Fatal(err)
	}
	for i, h := range sends {
		want := []error{nil, ErrFreed, ErrFreed, nil, ErrFreed, ErrFreed, nil}[i] // of those that wait for the receiver
		if _, err := a.Requests().Wait(h); !errors.Is(err, want) {
			t.Errorf("send %d: %v, want %v", i, err, want)
		}
	}
	if _, err := b.Recv(old(from(0, 3)), nil); !errors.Is(err, ErrContextEnded) {
		t.Errorf("receive in a context that has ended: %v", err)
	}
	if _, _, err := b.Probes().Probe(context.Background(), old(from(0, 3)), false); !errors.Is(err, ErrContextEnded) {
		t.Errorf("probe in a context that has ended: %v", err)
	}
	if b.unexpected.held != 0 {
		t.Errorf("%d bytes are still in use", b.unexpected.held)
	}
}

// TestExpectContext: between Contexts.Expect and Agreed messages of all generations of a number are
// accepted. After that the messages of the last generation are dropped.
func TestExpectContext(t *testing.T) {
	es := open(t, 2, nil, nil)
	a, b := es[0], es[1]
	in := func(context uint32, r Route) Route { r.Context = context; return r }
	const number, last, next = 7, 7 | 9<<ContextBits, 7 | 3<<ContextBits
	b.Contexts().Free(last, ErrContextEnded)
	b.Contexts().Expect(number)
	late, err := a.Isend(in(last, to(0, 1, 1)), make([]byte, 10), Synchronous)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Send(in(next, to(0, 1, 1)), make([]byte, 5), Standard); err != nil {
		t.Fatal(err)
	}
	if err := b.lockedPollOnce(); err != nil {
		t.Fatal(err)
	}
	b.Contexts().Agreed(next, true)
	if st, err := b.Recv(in(next, from(0, AnyTag)), make([]byte, 5)); err != nil || st.Bytes != 5 {
		t.Errorf("%+v, %v", st, err)
	}
	if _, err := a.Requests().Wait(late); !errors.Is(err, ErrFreed) {
		t.Errorf("a late send: %v, want %v", err, ErrFreed)
	}
	if r, m := b.Contexts().QueueLengths(last); r+m != 0 {
		t.Errorf("%d receives and %d messages of the last generation are left", r, m)
	}
	b.Contexts().Expect(number)
	b.Contexts().Agreed(next+1<<ContextBits, false)
	for _, context := range []uint32{next - 1<<ContextBits, next + 1<<ContextBits} {
		if _, err := b.Recv(in(context, from(0, AnyTag)), nil); !errors.Is(err, ErrContextEnded) {
			t.Errorf("context %#x: %v", context, err)
		}
	}
}

// reader is an endpoint that calls read before each Read.
type reader struct {
	fabric.Endpoint
	read func() error
}

func (r reader) Read(dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error) {
	if err := r.read(); err != nil {
		return false, err
	}
	return r.Endpoint.Read(dst, local, src, token)
}

// readingDomain is a domain whose endpoints are readers.
type readingDomain struct {
	fabric.Domain
	read func() error
}

func (d readingDomain) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	ep, err := d.Domain.Connect(peer, addr)
	return reader{ep, d.read}, err
}

func readers(read func() error) wrap {
	return func(tr fabric.Transport) fabric.Transport {
		return hooked{tr, func(d fabric.Domain) fabric.Domain { return readingDomain{d, read} }}
	}
}

// TestReadReportsLoss: a receive whose message cannot be read, because its sender has exited,
// returns ErrFailed.
func TestReadReportsLoss(t *testing.T) {
	es := open(t, 2, readers(func() error { return fmt.Errorf("no such process: %w", fabric.ErrPeerDown) }), nil)
	if _, err := es[0].Isend(to(0, 1, 1), make([]byte, 50000), Standard); err != nil {
		t.Fatal(err)
	}
	if _, err := es[1].Recv(from(0, 1), make([]byte, 50000)); !errors.Is(err, ErrFailed) {
		t.Error(err)
	}
}

// TestTestAfterClose: a message that arrives together with the exit of its sender is received,
// whichever function tests for it.
func TestTestAfterClose(t *testing.T) {
	for name, test := range map[string]func(q *Requests, h Handle) (Status, bool, error){
		"Test": (*Requests).Test,
		"PollCompleted": func(q *Requests, h Handle) (Status, bool, error) {
			if ok, err := q.PollCompleted(h); !ok || err != nil {
				return Status{}, ok, err
			}
			st, err := q.Wait(h)
			return st, true, err
		},
		"TestAny": func(q *Requests, h Handle) (Status, bool, error) {
			i, st, ok, err := q.TestAny(perf.Testany, []Handle{{}, h})
			return st, ok && i == 1, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			es := open(t, 2, nil, nil)
			first, second := es[1].Irecv(from(0, 1), make([]byte, 8)), es[1].Irecv(from(0, 2), nil)
			if err := errors.Join(es[0].Send(to(0, 1, 1), make([]byte, 8), Standard), es[0].Close()); err != nil {
				t.Fatal(err)
			}
			if st, ok, err := test(&es[1].requests, first); st.Bytes != 8 || !ok || err != nil {
				t.Errorf("%+v, %v, %v", st, ok, err)
			}
			if _, _, err := test(&es[1].requests, second); !errors.Is(err, ErrFailed) {
				t.Errorf("the receive without a message: %v", err)
			}
		})
	}
}

// TestTestStale: while Test moves a block, another goroutine waits for the same request, which is
// then reused. Test does not touch the new operation.
func TestTestStale(t *testing.T) {
	var during func() error
	es := open(t, 2, readers(func() error { return during() }), nil)
	a, b := es[0], es[1]
	small, large := b.Irecv(from(0, 1), make([]byte, 8)), b.Irecv(from(0, 2), make([]byte, 50000))
	var next Handle
	during = func() error {
		err := a.Send(to(0, 1, 1), make([]byte, 8), Standard)
		_, failed := b.Requests().Wait(small)
		next = b.Irecv(from(0, 3), make([]byte, 8))
		return errors.Join(err, failed, a.Send(to(0, 1, 3), make([]byte, 8), Standard), b.lockedPollOnce())
	}
	sent, err := a.Isend(to(0, 1, 2), make([]byte, 50000), Standard)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := b.Requests().Test(small); !ok || !errors.Is(err, ErrStale) {
		t.Errorf("%v, %v", ok, err)
	}
	for _, h := range []Handle{next, large} {
		if _, err := b.Requests().Wait(h); err != nil {
			t.Error(err)
		}
	}
	if _, err := a.Requests().Wait(sent); err != nil {
		t.Error(err)
	}
}

// TestFreeActive frees active requests: their operations complete, and the requests are reused.
func TestFreeActive(t *testing.T) {
	es := open(t, 2, nil, nil)
	a, b := es[0], es[1]
	for range 200 {
		h, err := a.Isend(to(0, 1, 1), make([]byte, 20000), Standard)
		if err != nil {
			t.Fatal(err)
		}
		p := a.SendInit(to(0, 1, 1), oneBlock(make([]byte, 20000)), Synchronous)
		if err := a.Start(p); err != nil {
			t.Fatal(err)
		}
		for _, h := range []Handle{h, p} {
			if err := a.Requests().Free(h); err != nil {
				t.Fatal(err)
			}
			if err := a.Requests().Free(h); !errors.Is(err, ErrStale) {
				t.Fatalf("freed twice: %v", err)
			}
			if _, err := a.Requests().Wait(h); !errors.Is(err, ErrStale) {
				t.Fatalf("waited for after it was freed: %v", err)
			}
		}
		for range 2 {
			if _, err := b.Recv(from(0, 1), make([]byte, 20000)); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.lockedPollOnce(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(a.requests.slabs); n != 1 {
		t.Errorf("%d slabs of requests for two requests at a time", n)
	}
}

// TestWaitTogether: several goroutines wait for one request. One gets it, the others get ErrStale.
func TestWaitTogether(t *testing.T) {
	es := open(t, 2, nil, nil)
	h := es[0].Irecv(from(1, 1), nil)
	errs := make(chan error, 3)
	for range cap(errs) {
		go func() {
			_, err := es[0].Requests().Wait(h)
			errs <- err
		}()
	}
	awaitSleepers(es[0], cap(errs))
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

// TestProbeMovesBlocks: probes make progress for large receives.
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
			if _, ok, err := e.Probes().Probe(context.Background(), from(0, 2), false); ok || err != nil {
				_, werr := e.Requests().Wait(h)
				return errors.Join(err, werr)
			}
		}
	})
}

// TestRouteInRegisters: the compiler keeps structs of four fields in registers, and no larger ones.
func TestRouteInRegisters(t *testing.T) {
	route, envelope, match := reflect.TypeFor[Route](), reflect.TypeFor[wire.Envelope](), reflect.TypeFor[Match]()
	for _, s := range []reflect.Type{route, envelope, match, reflect.TypeFor[Status](), reflect.TypeFor[Handle]()} {
		if s.NumField() > 4 || s.Size() > 32 {
			t.Errorf("%v has %d fields in %d bytes", s, s.NumField(), s.Size())
		}
	}
}
