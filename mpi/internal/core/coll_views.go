package core

import (
	"sync"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/core/internal/checking"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// Collectives of derived data. Data that is one block of memory is used in place. Other data is
// packed, moved as bytes, and unpacked. Where a buffer has the data of all ranks, each rank has the
// same part of its packed bytes, in the order of ranks. Reductions work on the packed numbers,
// which must be of one kind.
//
// A blocking call packs before it begins and unpacks when it has ended. A request packs in its
// first step and unpacks in its last one, at every start of a persistent request.

// Views are the views of a collective: one for each side, or, where Collective.lists says so, one
// for each rank or neighbor.
type Views struct {
	Dst, Src   *datatype.Buffer
	Dsts, Srcs *Buffers
}

// OfViews makes or starts a collective of views, which it makes the buffers of x.
func (cs *Collectives) OfViews(start Start, x *Collective, v Views) (Request, error) {
	var unused datatype.Buffer
	if cs != nil && cs.comm != nil && !cs.isRoot(x.Root) {
		switch dst, src := x.sidesOfRoot(); {
		case dst:
			v.Dst, v.Dsts = &unused, &Buffers{}
		case src:
			v.Src, v.Srcs = &unused, &Buffers{}
		}
	}
	if err := cs.checkSinks(start.Name(x.Kind), x, &v); err != nil {
		return Request{}, err
	}
	// A request needs its packing until it ends, maybe many times. So it has one of its own, which
	// no pool takes back.
	if start != Blocking {
		x.views = newPacking()
		cs.setBuffers(x, &v, x.views)
		return cs.Start(start, x)
	}
	pool := &cs.comm.proc.packings
	p := pool.take()
	defer pool.put(p)
	cs.setBuffers(x, &v, p)
	p.packSources()
	// After an error nothing is unpacked: it would overwrite the buffer with whatever the memory of
	// the pool held before.
	err := cs.Call(x)
	if err == nil {
		p.unpackSinks()
	}
	return Request{}, err
}

// isRoot reports whether this rank is the root of a call.
func (cs *Collectives) isRoot(root int) bool {
	if cs.isInter() {
		return root == Root
	}
	return root == cs.comm.Rank()
}

// checkSinks returns an error if the communicator cannot be used, or if entries of a view that
// receives overlap.
func (cs *Collectives) checkSinks(op string, x *Collective, v *Views) error {
	if err := cs.checkUsable(op); err != nil {
		return err
	}
	if list, _ := x.lists(); !list {
		return cs.comm.wrapError(op, checkSink(v.Dst))
	}
	for i := range v.Dsts.list {
		if err := cs.comm.wrapError(op, checkSink(&v.Dsts.list[i])); err != nil {
			return err
		}
	}
	return nil
}

// setBuffers makes views the buffers of a collective, packed in memory of p unless they are one
// block. It sets the elements.
func (cs *Collectives) setBuffers(x *Collective, v *Views, p *packing) {
	inPlace := false
	to, from := x.lists()
	switch use := cs.sinkUse(x); {
	case to:
		x.Dst, x.To = p.parts(v.Dsts, use, &p.to)
	// Both sides are packed to the same bytes, so that the arguments show a call in place to the
	// checks of bytes, too.
	case x.Kind != perf.Bcast && !from && !x.isNeighbor() && sameData(v.Dst, v.Src):
		inPlace = true
		x.Dst = p.bytes(v.Dst, isSource|isSink)
	default:
		x.Dst = p.bytes(v.Dst, use)
	}
	switch {
	case from:
		x.Src, x.From = p.parts(v.Srcs, isSource, &p.from)
	case inPlace:
		x.Src = x.Dst
	case x.Kind != perf.Bcast:
		x.Src = p.bytes(v.Src, isSource)
	}
	x.Elements = cs.elementsOfViews(x, v, p)
}

// sameData reports whether two buffers have the same memory: the call is in place.
func sameData(a, b *datatype.Buffer) bool {
	s, t := a.Span(), b.Span()
	return sameStart(s, t) && len(s) == len(t) && a.Size() == b.Size()
}

// packing is the data of views that a call packs and unpacks. SendrecvReplace needs only its
// memory. It belongs to one call; a request has one of its own, since several may be in progress.
type packing struct {
	sources, sinks []packedView
	// pack packs the sources, unpack unpacks the sinks. They are fields so that no call needs the
	// packing on the heap.
	pack, unpack func()

	room     []byte // memory for packed bytes, of which used bytes are in use
	used     int
	needed   int         // bytes that the call has asked for in all
	pooled   bool        // other calls use the memory again
	to, from coll.Layout // of parts
	elements elementData
}

// packedView is a view and the memory for its packed bytes.
type packedView struct {
	d datatype.Buffer
	b []byte
}

func newPacking() *packing {
	p := &packing{}
	p.pack, p.unpack = p.packSources, p.unpackSinks
	return p
}

// packingPool has the packings of blocking calls that have ended, without data of the program.
type packingPool struct{ pool sync.Pool }

// take returns a packing without views, until put.
func (p *packingPool) take() *packing {
	if x, ok := p.pool.Get().(*packing); ok {
		return x
	}
	x := newPacking()
	x.pooled = true
	return x
}

// put keeps the memory of a packing for a later call, and nothing of the program.
func (p *packingPool) put(x *packing) {
	// Otherwise buffers of the program would stay reachable from the pool.
	clear(x.sources)
	clear(x.sinks)
	x.sources, x.sinks, x.elements = x.sources[:0], x.sinks[:0], elementData{}
	x.used, x.needed = 0, 0
	p.pool.Put(x)
}

// empty reports whether nothing is packed or unpacked.
func (p *packing) empty() bool { return len(p.sources)+len(p.sinks) == 0 }

func (p *packing) packSources() {
	for i := range p.sources {
		p.sources[i].d.Pack(p.sources[i].b, 0)
	}
}

func (p *packing) unpackSinks() {
	for i := range p.sinks {
		p.sinks[i].d.Unpack(p.sinks[i].b, 0)
	}
}

// The uses of data: it is sent, or received, or both.
const (
	isSource = 1 << iota
	isSink
)

// packedAlign is the alignment of packed data: that of the longest number, and a cache line.
const packedAlign = 64

// take returns n bytes with any contents. Bytes that it has returned remain valid until the packing
// is returned.
func (p *packing) take(n int) []byte {
	whole := (n + packedAlign - 1) &^ (packedAlign - 1)
	p.needed += whole
	if len(p.room)-p.used < whole {
		size := whole
		if p.pooled {
			size = p.needed // so the next call finds enough for all that this one needs
		}
		p.room, p.used = make([]byte, size), 0
	}
	b := p.room[p.used : p.used+n : p.used+n]
	p.used += whole
	return b
}

// bytes returns the bytes of d during the collective.
func (p *packing) bytes(d *datatype.Buffer, use int) []byte {
	if b, ok := d.Contiguous(); ok {
		return b
	}
	b := p.take(int(d.Size()))
	p.add(d, b, use)
	return b
}

func (p *packing) add(d *datatype.Buffer, b []byte, use int) {
	if use&isSource != 0 {
		p.sources = append(p.sources, packedView{*d, b})
	}
	if use&isSink != 0 {
		p.sinks = append(p.sinks, packedView{*d, b})
	}
}

// parts returns the bytes of buffers one after the other, and where those of each are. The
// positions are stored in at.
func (p *packing) parts(l *Buffers, use int, at *coll.Layout) ([]byte, coll.Layout) {
	if at.Counts == nil { // which would mean no counts
		at.Counts, at.Displs = make([]int, 0, len(l.list)), make([]int, 0, len(l.list))
	}
	at.Counts, at.Displs = at.Counts[:0], at.Displs[:0]
	total := 0
	for i := range l.list {
		n := int(l.list[i].Size())
		at.Counts, at.Displs = append(at.Counts, n), append(at.Displs, total)
		total += n
	}
	b := p.take(total)
	for i := range l.list {
		p.add(&l.list[i], b[at.Displs[i]:][:at.Counts[i]:at.Counts[i]], use)
	}
	return b, *at
}

// numbersIn returns the elements of d if they are numbers of one kind.
func numbersIn(d *datatype.Buffer) (Elements, bool) {
	switch k := d.Kind(); {
	case d.Size() == 0:
		return Elements{kind: datatype.Byte}, true
	// Another rank may pass a slice of int64, which is the same to a reduction and to the
	// comparison.
	case k == datatype.Long:
		return Elements{kind: datatype.Int64}, true
	case k == datatype.ULong:
		return Elements{kind: datatype.Uint64}, true
	default:
		return Elements{kind: k}, k != 0
	}
}

// elementsOf returns the elements of d, which has the data of a number of ranks; the ranks compare
// that of one.
func (p *packing) elementsOf(d *datatype.Buffer, ranks int) Elements {
	if k, ok := numbersIn(d); ok {
		return k
	}
	sig, _ := d.SignatureOf(d.Size() / int64(ranks)) // zero if the data cannot be divided, which is another error
	p.elements = elementData{size: 1, sig: sig}
	return Elements{data: &p.elements}
}

// reduced returns the elements of a reduction of src into dst by o. A rank of an intercommunicator
// may have data in one of them only, or in none: then the operation says what it is defined on.
func (p *packing) reduced(dst, src *datatype.Buffer, o Op) Elements {
	for _, d := range [...]*datatype.Buffer{src, dst} {
		if d.Size() != 0 {
			return p.elementsOf(d, 1)
		}
	}
	if user, ok := o.(*userOp); ok {
		return user.elements
	}
	return Elements{kind: datatype.Uint8}
}

// elementsOfParts returns the elements of a collective of buffers that differ: bytes, with
// signatures if calls are checked. own is this rank's block, parts those that it sends or all ranks
// know, and from those that it expects.
func (cs *Collectives) elementsOfParts(own *datatype.Buffer, parts, from *Buffers) Elements {
	if !cs.comm.checks {
		return Elements{kind: datatype.Byte}
	}
	sigs := &checking.Parts{Own: signatureOf(own), Counts: parts.signatures(), From: from.signatures()}
	return Elements{data: &elementData{size: 1, parts: sigs}}
}

func signatureOf(d *datatype.Buffer) datatype.Signature {
	if d == nil || d.Size() == 0 {
		return datatype.Signature{}
	}
	sig, _ := d.SignatureOf(d.Size()) // not zero: all of the data is whole elements
	return sig
}

// Buffers are a buffer for each rank. Their memory is reused, so that a call with them allocates
// nothing.
type Buffers struct{ list []datatype.Buffer }

// TakeBuffers returns no buffers, until Release.
func TakeBuffers() *Buffers {
	if l, ok := shared.buffers.Get().(*Buffers); ok {
		return l
	}
	return new(Buffers)
}

// Add appends a copy of b, which has the same memory.
func (l *Buffers) Add(b *datatype.Buffer) { l.list = append(l.list, *b) }

// Release ends the use of the buffers, and keeps no memory of theirs.
func (l *Buffers) Release() {
	clear(l.list)
	l.list = l.list[:0]
	shared.buffers.Put(l)
}

func (l *Buffers) signatures() []datatype.Signature {
	if l == nil {
		return nil
	}
	sigs := make([]datatype.Signature, len(l.list))
	for i := range l.list {
		sigs[i] = signatureOf(&l.list[i])
	}
	return sigs
}
