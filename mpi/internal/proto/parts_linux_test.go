package proto

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/fabric/rdma"
	"github.com/ibrun/ibrun/fabric/shm"
	"github.com/ibrun/ibrun/fabric/tcp"
	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// bytesOf is a datatype written out: where each packed byte of an element is, and the extent.
type bytesOf struct {
	at     []int64
	extent int64
}

// copies returns n copies of m, the next one displaced by stride.
func (m bytesOf) copies(n, stride int64) (at []int64) {
	for i := range n {
		for _, x := range m.at {
			at = append(at, x+i*stride)
		}
	}
	return at
}

// randomType returns a random datatype of at most depth levels above a basic one, and the same
// written out.
func randomType(r *rand.Rand, depth int) (*datatype.Type, bytesOf, error) {
	if depth == 0 {
		t := datatype.OfKind([]datatype.Kind{datatype.Uint8, datatype.Int16, datatype.Int32, datatype.Float64}[r.IntN(4)])
		return t, bytesOf{(bytesOf{at: []int64{0}}).copies(t.Size(), 1), t.Size()}, nil
	}
	old, m, err := randomType(r, depth-1)
	if err != nil {
		return nil, m, err
	}
	var t *datatype.Type
	var out bytesOf
	switch n := 1 + r.Int64N(6); r.IntN(3) {
	case 0:
		length, stride := 1+r.Int64N(4), 4+r.Int64N(5)
		t, err = datatype.Vector(n, length, stride, old)
		out.at = bytesOf{at: m.copies(length, m.extent)}.copies(n, stride*m.extent)
	case 1:
		lens, displs, next := make([]int64, n), make([]int64, n), int64(0)
		for i := range lens {
			lens[i], displs[i] = r.Int64N(4), next+r.Int64N(20)
			next = displs[i] + lens[i]*m.extent
			for _, x := range m.copies(lens[i], m.extent) {
				out.at = append(out.at, x+displs[i])
			}
		}
		t, err = datatype.HIndexed(lens, displs, old)
	default:
		gap := r.Int64N(9)
		t, err = datatype.Struct([]int64{1, 3}, []int64{m.extent*3 + gap, 0}, []*datatype.Type{old, old})
		out.at = append((bytesOf{at: m.at}).copies(1, 0), m.copies(3, m.extent)...)
		for i := range m.at {
			out.at[i] += m.extent*3 + gap
		}
	}
	if err != nil {
		return nil, out, err
	}
	lb, _ := t.Extent()
	_, length := t.TrueExtent()
	out.extent = max(lb, 0) + length + r.Int64N(30)
	if len(out.at) > 0 {
		out.extent = slices.Max(out.at) + 1 + r.Int64N(9)
	}
	t, err = datatype.Resized(0, out.extent, t)
	return t, out, err
}

// partsData is elements of a random type in memory, and where their packed bytes are.
type partsData struct {
	mem []byte
	at  []int64
	buf datatype.Buffer
}

// newPartsData returns elements with at least n bytes, and at most twice as many and some.
func newPartsData(r *rand.Rand, n int) (*partsData, error) {
	t, m, err := randomType(r, r.IntN(4))
	if err != nil {
		return nil, err
	}
	t.Commit()
	count := int64(1)
	if len(m.at) > 0 {
		count = int64(n/len(m.at)) + 1
	}
	d := &partsData{mem: make([]byte, count*m.extent+16), at: m.copies(count, m.extent)}
	for i := range d.mem {
		d.mem[i] = byte(r.Uint32())
	}
	d.buf, err = t.Buffer(d.mem, 0, count)
	return d, err
}

// partsCase is one message, as a seed determines it.
type partsCase struct {
	src, dst *partsData
	mode     Mode
	way      int // how the calls are made
	want     []byte
}

func newPartsCase(seed uint64, limit int) (*partsCase, error) {
	r := rand.New(rand.NewPCG(seed, 4))
	n := r.IntN(1 << (1 + r.IntN(limit)))
	src, err1 := newPartsData(r, n)
	if err1 != nil {
		return nil, err1
	}
	room := len(src.at)
	if seed%16 == 0 {
		room /= 3 // perhaps truncated
	}
	dst, err2 := newPartsData(r, room)
	if err2 != nil {
		return nil, err2
	}
	c := &partsCase{src: src, dst: dst, mode: []Mode{Standard, Standard, Synchronous}[r.IntN(3)], way: r.IntN(6)}
	c.want = slices.Clone(dst.mem)
	for i := range min(len(src.at), len(dst.at)) {
		c.want[dst.at[i]] = src.mem[src.at[i]]
	}
	return c, nil
}

// send sends the message in one of several ways.
func (c *partsCase) send(e *Engine, tag int32) error {
	rt := to(0, 1, tag)
	rt.Op = perf.Send
	b, plain := c.src.buf.Contiguous()
	switch {
	case plain:
		return e.Send(rt, b, c.mode)
	case c.way%3 == 0:
		return e.SendData(rt, &c.src.buf, c.mode, nil)
	case c.way%3 == 1:
		h, err := e.IsendData(rt, &c.src.buf, c.mode, nil)
		if err != nil {
			return err
		}
		_, err = e.Requests().Wait(h)
		return err
	}
	h := e.SendInit(rt, &c.src.buf, c.mode)
	_, err := e.waitStarted(h)
	return errors.Join(err, e.Requests().Free(h))
}

// waitStarted starts a persistent request and waits for it.
func (e *Engine) waitStarted(h Handle) (Status, error) {
	if err := e.Start(h); err != nil {
		return Status{}, err
	}
	return e.Requests().Wait(h)
}

// receive receives the message in one of several ways.
func (c *partsCase) receive(e *Engine, tag int32) (st Status, err error) {
	rt := from(0, tag)
	rt.Op = perf.Recv
	b, plain := c.dst.buf.Contiguous()
	switch {
	case plain:
		return e.Recv(rt, b)
	case c.way < 2:
		return e.RecvData(rt, &c.dst.buf, nil)
	case c.way < 3:
		return e.Requests().Wait(e.IrecvData(rt, &c.dst.buf, nil))
	case c.way < 5:
		m, _, _, err := e.Probes().MatchedProbe(context.Background(), rt, true)
		if err != nil {
			return Status{}, err
		}
		return e.Requests().Wait(e.Probes().RecvMatched(perf.Mrecv, m, &c.dst.buf, nil))
	}
	h := e.RecvInit(rt, &c.dst.buf)
	st, err = e.waitStarted(h)
	return st, errors.Join(err, e.Requests().Free(h))
}

// check compares what was received with the model.
func (c *partsCase) check(st Status, err error) error {
	long := len(c.src.at) > len(c.dst.at)
	switch {
	case long != errors.Is(err, ErrTruncate) || !long && err != nil:
		return fmt.Errorf("%d bytes into %d: %w", len(c.src.at), len(c.dst.at), err)
	case st.Bytes != min(len(c.src.at), len(c.dst.at)):
		return fmt.Errorf("status of %d bytes, want %d", st.Bytes, min(len(c.src.at), len(c.dst.at)))
	case !slices.Equal(c.dst.mem, c.want):
		return errors.New("other bytes were received, or stored elsewhere")
	}
	return nil
}

// exchangeParts sends random messages from engine 0 to engine 1.
func exchangeParts(t *testing.T, es []*Engine, first, seeds uint64, limit int) {
	t.Helper()
	each(t, es, func(self int, e *Engine) error {
		for seed := first; seed < first+seeds; seed++ {
			c, err := newPartsCase(seed, limit)
			if err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			}
			if self == 0 {
				err = c.send(e, int32(seed))
			} else {
				err = c.check(c.receive(e, int32(seed)))
			}
			if err != nil {
				return fmt.Errorf("seed %d, rank %d: %w", seed, self, err)
			}
		}
		return nil
	})
	each(t, es, func(_ int, e *Engine) error { return e.FlushSends() })
}

// partsSeeds is the number of random messages for each transport.
func partsSeeds() uint64 {
	return soaktest.Choose[uint64](10000, 15)
}

// TestParts sends elements of random types to receives with other random types and compares all
// bytes with a model.
func TestParts(t *testing.T) {
	variants := map[string]variant{
		"plain": {}, "no reads": {noRead: true}, "refused": {refuse: true}, "both copy": {pairing: true},
		"fragments": {fragments: true}, "scarce": {scarce: true},
	}
	first := uint64(0)
	for name, v := range variants {
		t.Run(name, func(t *testing.T) { exchangeParts(t, open(t, 2, v.wrap, nil), first, partsSeeds(), 17) })
		first += partsSeeds() / 2
	}
}

// TestPartsTransports is TestParts over the transports of a node, and over simulated devices.
func TestPartsTransports(t *testing.T) {
	shared := &shm.Transport{Local: []int{0, 1}, Tracer: os.Getppid()}
	sockets := &tcp.Transport{Interfaces: []string{"127.0.0.1/32"}, Linger: 20 * time.Second}
	network := verbstest.NewSimulatedNetwork()
	set := rdma.Settings{Devices: []string{"a"}, Heartbeat: 2 * time.Minute}
	devices := [2]*rdma.Transport{{Settings: set, Network: network.Node()}, {Settings: set, Network: network.Node()}}
	crand.Read(shared.Key[:])
	crand.Read(sockets.Key[:])
	crand.Read(devices[0].Key[:])
	devices[1].Key = devices[0].Key
	for i, trs := range [][2]fabric.Transport{{shared, shared}, {sockets, sockets}, {devices[0], devices[1]}} {
		t.Run(trs[0].Name(), func(t *testing.T) {
			exchangeParts(t, openNode(t, trs), uint64(i+1)*1_000_000, partsSeeds(), 19)
		})
	}
}

// TestLiveParts is TestParts over the RDMA device of this machine.
func TestLiveParts(t *testing.T) {
	live.NoNAK(t)
	device := &rdma.Transport{}
	crand.Read(device.Key[:])
	exchangeParts(t, openNode(t, [2]fabric.Transport{device, device}), 5_000_000, partsSeeds(), 19)
}

// openNode returns two engines that are connected by transports.
func openNode(t *testing.T, trs [2]fabric.Transport) []*Engine {
	t.Helper()
	var ds [2]fabric.Domain
	var errs [2]error
	var opening sync.WaitGroup
	for i := range ds {
		opening.Go(func() { ds[i], errs[i] = trs[i].Open(t.Context(), &fabric.Config{Self: i, Size: 2}) })
	}
	opening.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	es := make([]*Engine, len(ds))
	for i, d := range ds {
		var err error
		es[i], err = New(Config{Domain: d, Self: i, Size: 2, Oversubscribed: true, Address: func(n int) []byte { return ds[n].Addr() }})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, e := range es {
			e.Processes().AllowFinalize()
		}
		for _, e := range es {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return es
}

// column returns a column of n elements of 8 bytes.
func column(t testing.TB, n int) *datatype.Buffer {
	t.Helper()
	typ, err := datatype.Vector(int64(n), 1, 3, datatype.OfKind(datatype.Float64))
	if err != nil {
		t.Fatal(err)
	}
	typ.Commit()
	b, err := typ.Buffer(make([]byte, n*24), 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	return &b
}

// TestPartsAllocs: messages of data in parts allocate nothing, whatever the protocol.
func TestPartsAllocs(t *testing.T) {
	es := open(t, 2, variant{fragments: true}.wrap, nil)
	for _, n := range []int{1, 100, 5000, 20000} {
		s, r := column(t, n), column(t, n)
		there, here := to(0, 1, 5), from(0, 5)
		there.Op, here.Op = perf.Isend, perf.Irecv
		var err error
		pass := func() {
			in := es[1].IrecvData(here, r, nil)
			out, err1 := es[0].IsendData(there, s, Standard, nil)
			var done bool
			var err2, err3 error
			for !done {
				_, err2 = es[0].Requests().PollCompleted(out)
				done, err3 = es[1].Requests().PollCompleted(in)
			}
			_, err4 := es[1].Requests().Wait(in)
			_, err5 := es[0].Requests().Wait(out)
			err = errors.Join(err, err1, err2, err3, err4, err5)
		}
		pass()
		if allocs := alloctest.Count(50, pass); allocs != 0 || err != nil {
			t.Errorf("%d elements: %v allocations, %v", n, allocs, err)
		}
	}
}

// TestPartsNotes: with checks, elements of other types are an error, and the same elements in
// another arrangement are not.
func TestPartsNotes(t *testing.T) {
	elem := func(types ...*datatype.Type) *datatype.Buffer {
		displs, lens := make([]int64, len(types)), make([]int64, len(types))
		for i := range types {
			displs[i], lens[i] = int64(16*i), 1
		}
		typ, err := datatype.Struct(lens, displs, types)
		if err != nil {
			t.Fatal(err)
		}
		typ.Commit()
		b, err := typ.Buffer(make([]byte, 1000), 0, 5)
		if err != nil {
			t.Fatal(err)
		}
		return &b
	}
	i32, f64 := datatype.OfKind(datatype.Int32), datatype.OfKind(datatype.Float64)
	note := func(d *datatype.Buffer) *notes.Note {
		n := &notes.Note{Type: d.Kind().String(), Op: perf.Send, Where: "a.go:1"}
		if d.Kind() == 0 {
			n.SetMixed(d)
		}
		return n
	}
	short := elem(i32, f64)
	*short = func() datatype.Buffer {
		typ, _ := datatype.Struct([]int64{1, 1}, []int64{8, 0}, []*datatype.Type{i32, f64})
		typ.Commit()
		b, err := typ.Buffer(make([]byte, 100), 0, 2)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}()
	cases := []struct {
		s, r  *datatype.Buffer
		class error
	}{
		{elem(i32, f64), elem(i32, f64), nil},
		{short, elem(i32, f64), nil},
		{elem(i32, f64), short, ErrTruncate},
		{elem(f64, i32), elem(i32, f64), notes.ErrType},
		{elem(i32, i32), elem(i32, f64), notes.ErrType},
		{elem(i32, f64), elem(f64), notes.ErrType},
		{column(t, 4), column(t, 5), nil},
	}
	es := open(t, 2, nil, func(c *Config) { c.Checks = true })
	for i, c := range cases {
		each(t, es, func(self int, e *Engine) error {
			if self == 0 {
				rt := to(0, 1, int32(i))
				rt.Op = perf.Send
				return e.SendData(rt, c.s, Standard, note(c.s))
			}
			rt := from(0, int32(i))
			rt.Op = perf.Recv
			if _, err := e.RecvData(rt, c.r, note(c.r)); !errors.Is(err, c.class) {
				return fmt.Errorf("case %d: %w, want %v", i, err, c.class)
			}
			return nil
		})
	}
}

// TestPartsPeerDies: a receive and a send of pieces end with an error if the peer dies in the
// middle.
func TestPartsPeerDies(t *testing.T) {
	hub := mem.NewHub(2)
	tr := variant{noRead: true}.wrap(hub.Transport())
	for dying := range 2 {
		if dying == 1 {
			hub = mem.NewHub(2)
			tr = variant{noRead: true}.wrap(hub.Transport())
		}
		es := []*Engine{openOne(t, tr, 0, 2, nil), openOne(t, tr, 1, 2, nil)}
		s, r := column(t, 1<<16), column(t, 1<<16)
		out, err := es[0].IsendData(to(0, 1, 5), s, Standard, nil)
		if err != nil {
			t.Fatal(err)
		}
		in := es[1].IrecvData(from(0, 5), r, nil)
		for range 3 { // RTS, the request, and some pieces, but not all
			for _, e := range []*Engine{es[1], es[0]} {
				if err := e.Processes().Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if es[0].Completed(out) || es[1].Completed(in) {
			t.Fatal("the message has been sent completely")
		}
		hub.Fail(dying, errors.New("killed by the test"))
		left, h := es[1], in
		if dying == 1 {
			left, h = es[0], out
		}
		if _, err := left.Requests().Wait(h); !errors.Is(err, ErrFailed) {
			t.Errorf("process %d died: %v", dying, err)
		}
	}
}
