package core

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// Immediate and persistent collectives of derived data. Data that is one block of memory is used in place. Other data is packed
// by the first step of the collective and unpacked by its last one, at every start of a persistent request. The packed bytes
// have memory of their own, since several collectives may be in progress.

// packing is the data of views that a collective packs and unpacks. A nil packing has none.
type packing struct {
	sources, sinks []packedView
	// pack packs the sources, unpack unpacks the sinks. They are fields so that no call needs the packing on the heap.
	pack, unpack func()
}

func newPacking() *packing {
	x := &packing{}
	x.pack, x.unpack = x.packSources, x.unpackSinks
	return x
}

// packedView is a view and the memory for its packed bytes.
type packedView struct {
	d datatype.Buffer
	b []byte
}

// run runs an algorithm, with packing before it and unpacking after it.
func (x *packing) run(p coll.Peer, o *coll.Operation, f collFunc) error {
	if x == nil || len(x.sources)+len(x.sinks) == 0 {
		return f(p, o)
	}
	p.Call(x.pack)
	if err := f(p, o); err != nil {
		return err
	}
	p.Call(x.unpack)
	return nil
}

func (x *packing) packSources() {
	for i := range x.sources {
		x.sources[i].d.Pack(x.sources[i].b, 0)
	}
}

func (x *packing) unpackSinks() {
	for i := range x.sinks {
		x.sinks[i].d.Unpack(x.sinks[i].b, 0)
	}
}

// The uses of data: it is sent, or received, or both. Data that may not be received although the call succeeds is both.
const (
	isSource = 1 << iota
	isSink
)

// bytes returns the bytes of d during the collective.
func (x *packing) bytes(d *datatype.Buffer, use int) []byte {
	if b, ok := d.Contiguous(); ok {
		return b
	}
	b := make([]byte, d.Size())
	x.add(d, b, use)
	return b
}

func (x *packing) add(d *datatype.Buffer, b []byte, use int) {
	if use&isSource != 0 {
		x.sources = append(x.sources, packedView{*d, b})
	}
	if use&isSink != 0 {
		x.sinks = append(x.sinks, packedView{*d, b})
	}
}

// both returns the bytes of the two sides of a collective, which are the same if it is in place.
func (x *packing) both(dst, src *datatype.Buffer, sink int) (in, out []byte) {
	if sameData(dst, src) {
		in = x.bytes(dst, isSource|isSink)
		return in, in
	}
	return x.bytes(dst, sink), x.bytes(src, isSource)
}

// parts returns the bytes of buffers one after the other, and their lengths.
func (x *packing) parts(l *Buffers, use int) (b []byte, counts []int) {
	counts = make([]int, len(l.list))
	total := 0
	for i := range l.list {
		counts[i] = int(l.list[i].Size())
		total += counts[i]
	}
	b = make([]byte, total)
	rest := b
	for i, n := range counts {
		x.add(&l.list[i], rest[:n:n], use)
		rest = rest[n:]
	}
	return b, counts
}

// elementsOf returns the elements of d, which has the data of a number of ranks.
func elementsOf(d *datatype.Buffer, ranks int) Elements {
	if k, ok := numbersIn(d); ok {
		return k
	}
	return mixedIn(d, ranks, new(elementData))
}

// wholeOrOwn returns the elements of a collective in which all has the data of all ranks, and one that of this rank.
func (c *Comm) wholeOrOwn(all, one *datatype.Buffer) Elements {
	if all.Size() != 0 {
		return elementsOf(all, len(c.peers))
	}
	return elementsOf(one, 1)
}

// startViews returns the mode of an immediate or persistent collective that receives into a view.
func (c *Comm) startViews(call perf.Op, start Start, r *Request, sink *datatype.Buffer) (collMode, error) {
	m := modeOf(call, start, r, newPacking())
	return m, c.checkData(m.name(), sink)
}

// startParts is startViews for several views.
func (c *Comm) startParts(call perf.Op, start Start, r *Request, sinks *Buffers) (collMode, error) {
	m := modeOf(call, start, r, newPacking())
	return m, c.checkParts(m.name(), sinks)
}

// IbcastData starts a Bcast of the elements of d.
func (c *Comm) IbcastData(start Start, d *datatype.Buffer, root int) (r Request, err error) {
	m, err := c.startViews(perf.Ibcast, start, &r, d)
	if err != nil {
		return r, err
	}
	use := isSource | isSink // at a rank of an intercommunicator that does not take part, nothing is received
	if c.isRoot(root) {
		use = isSource
	}
	err = c.ibcast(m, m.views.bytes(d, use), elementsOf(d, 1), root)
	return r, err
}

// IgatherData starts a Gather of the elements of src into those of dst, which has the data of all ranks at root.
func (c *Comm) IgatherData(start Start, dst, src *datatype.Buffer, root int) (r Request, err error) {
	if c != nil && !c.isRoot(root) {
		dst = new(datatype.Buffer)
	}
	m, err := c.startViews(perf.Igather, start, &r, dst)
	if err != nil {
		return r, err
	}
	in, out := m.views.both(dst, src, isSink)
	err = c.igather(m, in, out, c.wholeOrOwn(dst, src), root)
	return r, err
}

// IscatterData starts a Scatter of the elements of src, which has the data of all ranks at root, into those of dst.
func (c *Comm) IscatterData(start Start, dst, src *datatype.Buffer, root int) (r Request, err error) {
	if c != nil && !c.isRoot(root) {
		src = new(datatype.Buffer)
	}
	m, err := c.startViews(perf.Iscatter, start, &r, dst)
	if err != nil {
		return r, err
	}
	in, out := m.views.both(dst, src, isSource|isSink)
	err = c.iscatter(m, in, out, c.wholeOrOwn(src, dst), root)
	return r, err
}

// IallgatherData starts an Allgather of the elements of src into those of dst, which has the data of all ranks.
func (c *Comm) IallgatherData(start Start, dst, src *datatype.Buffer) (r Request, err error) {
	m, err := c.startViews(perf.Iallgather, start, &r, dst)
	if err != nil {
		return r, err
	}
	in, out := m.views.both(dst, src, isSink)
	err = c.iallgather(m, in, out, c.wholeOrOwn(dst, src))
	return r, err
}

// IalltoallData starts an Alltoall of the elements of src into those of dst. Both have a part for each rank.
func (c *Comm) IalltoallData(start Start, dst, src *datatype.Buffer) (r Request, err error) {
	m, err := c.startViews(perf.Ialltoall, start, &r, dst)
	if err != nil {
		return r, err
	}
	in, out := m.views.both(dst, src, isSink)
	err = c.ialltoall(m, in, out, elementsOf(dst, len(c.peers)))
	return r, err
}

// IgathervData starts a Gatherv of the elements of src into the buffers of dst at root.
func (c *Comm) IgathervData(start Start, dst *Buffers, src *datatype.Buffer, root int) (r Request, err error) {
	if c != nil && !c.isRoot(root) {
		dst = new(Buffers)
	}
	m, err := c.startParts(perf.Igatherv, start, &r, dst)
	if err != nil {
		return r, err
	}
	in, counts := m.views.parts(dst, isSink)
	err = c.igatherv(m, in, counts, nil, m.views.bytes(src, isSource), c.elementsOfParts(src, dst, nil), root)
	return r, err
}

// IscattervData starts a Scatterv of the buffers of src at root into the elements of dst.
func (c *Comm) IscattervData(start Start, dst *datatype.Buffer, src *Buffers, root int) (r Request, err error) {
	if c != nil && !c.isRoot(root) {
		src = new(Buffers)
	}
	m, err := c.startViews(perf.Iscatterv, start, &r, dst)
	if err != nil {
		return r, err
	}
	out, counts := m.views.parts(src, isSource)
	err = c.iscatterv(m, m.views.bytes(dst, isSource|isSink), out, counts, nil, c.elementsOfParts(dst, src, nil), root)
	return r, err
}

// IallgathervData starts an Allgatherv of the elements of src into the buffers of dst.
func (c *Comm) IallgathervData(start Start, dst *Buffers, src *datatype.Buffer) (r Request, err error) {
	m, err := c.startParts(perf.Iallgatherv, start, &r, dst)
	if err != nil {
		return r, err
	}
	in, counts := m.views.parts(dst, isSink)
	err = c.iallgatherv(m, in, counts, nil, m.views.bytes(src, isSource), c.elementsOfParts(src, dst, nil))
	return r, err
}

// IalltoallwData starts to send src[i] to rank i, and to receive into dst[i] from rank i. call is Ialltoallw, or Ialltoallv of a
// slice.
func (c *Comm) IalltoallwData(call perf.Op, start Start, dst, src *Buffers) (r Request, err error) {
	m, err := c.startParts(call, start, &r, dst)
	if err != nil {
		return r, err
	}
	in, to := m.views.parts(dst, isSink)
	out, from := m.views.parts(src, isSource)
	err = c.ialltoallv(m, in, to, nil, out, from, nil, c.elementsOfParts(nil, src, dst))
	return r, err
}

// NeighborAllgatherData sends the elements of src to all destinations, and collects those of the sources in dst.
func (c *Comm) NeighborAllgatherData(start Start, dst, src *datatype.Buffer) (r Request, err error) {
	m, err := c.startViews(perf.IneighborAllgather, start, &r, dst)
	if err != nil {
		return r, err
	}
	in, out := m.views.bytes(dst, isSource|isSink), m.views.bytes(src, isSource)
	err = c.neighborAllgather(m, in, nil, nil, out, elementsOf(src, 1))
	return r, err
}

// NeighborAllgathervData is NeighborAllgatherData with a buffer for each source.
func (c *Comm) NeighborAllgathervData(start Start, dst *Buffers, src *datatype.Buffer) (r Request, err error) {
	m, err := c.startParts(perf.IneighborAllgatherv, start, &r, dst)
	if err != nil {
		return r, err
	}
	in, counts := m.views.parts(dst, isSource|isSink)
	err = c.neighborAllgather(m, in, counts, nil, m.views.bytes(src, isSource), Elements{kind: datatype.Byte})
	return r, err
}

// NeighborAlltoallData sends a part of src to each destination, and receives one from each source into dst.
func (c *Comm) NeighborAlltoallData(start Start, dst, src *datatype.Buffer) (r Request, err error) {
	m, err := c.startViews(perf.IneighborAlltoall, start, &r, dst)
	if err != nil {
		return r, err
	}
	in, out := m.views.bytes(dst, isSource|isSink), m.views.bytes(src, isSource)
	err = c.neighborAlltoall(m, in, blocks{}, out, blocks{}, Elements{kind: datatype.Byte})
	return r, err
}

// NeighborAlltoallwData sends src[i] to destination i, and receives into dst[i] from source i. call is IneighborAlltoallw, or
// IneighborAlltoallv of a slice.
func (c *Comm) NeighborAlltoallwData(call perf.Op, start Start, dst, src *Buffers) (r Request, err error) {
	m, err := c.startParts(call, start, &r, dst)
	if err != nil {
		return r, err
	}
	in, to := m.views.parts(dst, isSource|isSink)
	out, from := m.views.parts(src, isSource)
	err = c.neighborAlltoall(m, in, blocks{to, nil}, out, blocks{from, nil}, Elements{kind: datatype.Byte})
	return r, err
}
