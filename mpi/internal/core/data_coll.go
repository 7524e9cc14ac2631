package core

import (
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// Collectives of derived data. Data that is one block of memory is used in place. Other data is packed into pooled memory, moved
// as bytes, and unpacked. Where a buffer has the data of all ranks, each rank has the same part of its packed bytes, in the order
// of ranks.

// collData is the data of one side of a collective as bytes.
type collData struct {
	b      []byte
	m      *pooledMemory // nil if nothing is needed
	packed bool          // b is memory of m
}

// dataOf returns the data of d as bytes, until release. If it is packed and not to be kept, its contents are not defined.
func (c *Comm) dataOf(d *datatype.Buffer, keep bool) collData {
	b, ok := d.Contiguous()
	switch {
	case ok && (d.Kind() != 0 || d.Size() == 0):
		return collData{b: b}
	case ok:
		return collData{b: b, m: c.proc.memory.take(0)}
	}
	m := c.proc.memory.take(int(d.Size()))
	if keep {
		d.Pack(m.b, 0)
	}
	return collData{m.b, m, true}
}

// elements returns the elements of d, whose data is x, until release. d has the data of a number of ranks; the ranks compare
// that of one.
func (x *collData) elements(d *datatype.Buffer, ranks int) Elements {
	if k, ok := numbersIn(d); ok {
		return k
	}
	return mixedIn(d, ranks, &x.m.elements)
}

// numbersIn returns the elements of d if they are numbers of one kind.
func numbersIn(d *datatype.Buffer) (Elements, bool) {
	switch k := d.Kind(); {
	case d.Size() == 0:
		return Elements{kind: datatype.Byte}, true
	case k == datatype.Long:
		return Elements{kind: datatype.Int64}, true
	case k == datatype.ULong:
		return Elements{kind: datatype.Uint64}, true
	default:
		return Elements{kind: k}, k != 0
	}
}

// mixedIn returns the elements of d, which has the data of a number of ranks, as bytes with a signature. It is stored in room.
func mixedIn(d *datatype.Buffer, ranks int, room *elementData) Elements {
	sig, _ := d.SignatureOf(d.Size() / int64(ranks)) // zero if the data cannot be divided, which is another error
	*room = elementData{size: 1, sig: sig}
	return Elements{data: room}
}

// store stores what has been received in the elements of d, unless the call has failed with err, which it returns.
func (x *collData) store(d *datatype.Buffer, err error) error {
	if x.packed && err == nil {
		d.Unpack(x.b, 0)
	}
	return err
}

// release ends the use of the memory and of the elements.
func (x *collData) release() {
	if x.m != nil {
		x.m.release()
	}
}

// checkData returns the error of a collective that receives into d.
func (c *Comm) checkData(op string, d *datatype.Buffer) error {
	if err := c.checkUsable(op); err != nil {
		return err
	}
	return c.checkSink(op, d)
}

// sameData reports whether two buffers have the same memory: the call is in place.
func sameData(a, b *datatype.Buffer) bool {
	s, t := a.Span(), b.Span()
	return sameStart(s, t) && len(s) == len(t) && a.Size() == b.Size()
}

// bothData returns the data of the two sides of a collective. In a call in place that is the same bytes. keep says that the call
// may succeed without receiving.
func (c *Comm) bothData(dst, src *datatype.Buffer, keep bool) (in, out collData) {
	if sameData(dst, src) {
		in = c.dataOf(dst, true)
		return in, collData{b: in.b}
	}
	return c.dataOf(dst, keep), c.dataOf(src, true)
}

// elementsOfAll returns the elements of a collective in which all has the data of all ranks, and one that of this rank. A rank
// that has no data of all uses its own.
func (c *Comm) elementsOfAll(whole *collData, all *datatype.Buffer, own *collData, one *datatype.Buffer) Elements {
	if all.Size() != 0 {
		return whole.elements(all, len(c.peers))
	}
	return own.elements(one, 1)
}

// isRoot reports whether this rank is the root of a call.
func (c *Comm) isRoot(root int) bool {
	if c.isInter() {
		return root == Root
	}
	return root == c.Rank()
}

// BcastData is Bcast of the elements of d.
func (c *Comm) BcastData(d *datatype.Buffer, root int) error {
	if err := c.checkData("Bcast", d); err != nil {
		return err
	}
	x := c.dataOf(d, true)
	defer x.release()
	return x.store(d, c.Bcast(x.b, x.elements(d, 1), root))
}

// GatherData is Gather of the elements of src into those of dst, which has the data of all ranks at root.
func (c *Comm) GatherData(dst, src *datatype.Buffer, root int) error {
	var unused datatype.Buffer
	if c != nil && !c.isRoot(root) {
		dst = &unused
	}
	if err := c.checkData("Gather", dst); err != nil {
		return err
	}
	in, out := c.bothData(dst, src, false)
	defer in.release()
	defer out.release()
	return in.store(dst, c.Gather(in.b, out.b, c.elementsOfAll(&in, dst, &out, src), root))
}

// ScatterData is Scatter of the elements of src, which has the data of all ranks at root, into those of dst.
func (c *Comm) ScatterData(dst, src *datatype.Buffer, root int) error {
	var unused datatype.Buffer
	if c != nil && !c.isRoot(root) {
		src = &unused
	}
	if err := c.checkData("Scatter", dst); err != nil {
		return err
	}
	in, out := c.bothData(dst, src, c.isInter())
	defer in.release()
	defer out.release()
	from := &out
	if sameData(dst, src) {
		from = &in
	}
	return in.store(dst, c.Scatter(in.b, out.b, c.elementsOfAll(from, src, &in, dst), root))
}

// AllgatherData is Allgather of the elements of src into those of dst, which has the data of all ranks.
func (c *Comm) AllgatherData(dst, src *datatype.Buffer) error {
	if err := c.checkData("Allgather", dst); err != nil {
		return err
	}
	in, out := c.bothData(dst, src, false)
	defer in.release()
	defer out.release()
	return in.store(dst, c.Allgather(in.b, out.b, c.elementsOfAll(&in, dst, &out, src)))
}

// AlltoallData is Alltoall of the elements of src into those of dst. Both have a part for each rank.
func (c *Comm) AlltoallData(dst, src *datatype.Buffer) error {
	if err := c.checkData("Alltoall", dst); err != nil {
		return err
	}
	in, out := c.bothData(dst, src, false)
	defer in.release()
	defer out.release()
	return in.store(dst, c.Alltoall(in.b, out.b, in.elements(dst, len(c.peers))))
}

// Buffers are a buffer for each rank. Their memory is reused, so that a call with them allocates nothing.
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

// parts packs the buffers one after the other. If the data is not to be kept, its contents are not defined.
func (c *Comm) parts(l *Buffers, keep bool) *pooledMemory {
	total := 0
	for i := range l.list {
		total += int(l.list[i].Size())
	}
	m := c.proc.memory.take(total)
	m.counts, m.displs = m.counts[:0], m.displs[:0]
	if m.counts == nil { // which would mean no counts
		m.counts, m.displs = []int{}, []int{}
	}
	at := 0
	for i := range l.list {
		n := int(l.list[i].Size())
		if keep {
			l.list[i].Pack(m.b[at:at+n], 0)
		}
		m.counts, m.displs = append(m.counts, n), append(m.displs, at)
		at += n
	}
	return m
}

// storeParts stores what has been received, unless the call has failed.
func (m *pooledMemory) storeParts(l *Buffers, err error) error {
	for i := 0; i < len(l.list) && err == nil; i++ {
		l.list[i].Unpack(m.b[m.displs[i]:][:m.counts[i]], 0)
	}
	return err
}

// checkParts returns the error of a collective that receives into buffers.
func (c *Comm) checkParts(op string, l *Buffers) error {
	err := c.checkUsable(op)
	for i := 0; i < len(l.list) && err == nil; i++ {
		err = c.checkSink(op, &l.list[i])
	}
	return err
}

// elementsOfParts returns the elements of a collective of buffers that differ: bytes, with signatures if calls are checked.
// own is this rank's block, parts those that it sends or all ranks know, and from those that it expects.
func (c *Comm) elementsOfParts(own *datatype.Buffer, parts, from *Buffers) Elements {
	if !c.checks {
		return Elements{kind: datatype.Byte}
	}
	return Elements{data: &elementData{size: 1, parts: &partSignatures{signatureOf(own), parts.signatures(), from.signatures()}}}
}

func signatureOf(d *datatype.Buffer) datatype.Signature {
	if d == nil || d.Size() == 0 {
		return datatype.Signature{}
	}
	sig, _ := d.SignatureOf(d.Size()) // not zero: all of the data is whole elements
	return sig
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

// GathervData is Gatherv of the elements of src into the buffers of dst at root.
func (c *Comm) GathervData(dst *Buffers, src *datatype.Buffer, root int) error {
	var unused Buffers
	if c != nil && !c.isRoot(root) {
		dst = &unused
	}
	if err := c.checkParts("Gatherv", dst); err != nil {
		return err
	}
	in, out := c.parts(dst, false), c.dataOf(src, true)
	defer in.release()
	defer out.release()
	return in.storeParts(dst, c.Gatherv(in.b, in.counts, in.displs, out.b, c.elementsOfParts(src, dst, nil), root))
}

// ScattervData is Scatterv of the buffers of src at root into the elements of dst.
func (c *Comm) ScattervData(dst *datatype.Buffer, src *Buffers, root int) error {
	var unused Buffers
	if c != nil && !c.isRoot(root) {
		src = &unused
	}
	if err := c.checkData("Scatterv", dst); err != nil {
		return err
	}
	in, out := c.dataOf(dst, c.isInter()), c.parts(src, true)
	defer in.release()
	defer out.release()
	return in.store(dst, c.Scatterv(in.b, out.b, out.counts, out.displs, c.elementsOfParts(dst, src, nil), root))
}

// AllgathervData is Allgatherv of the elements of src into the buffers of dst.
func (c *Comm) AllgathervData(dst *Buffers, src *datatype.Buffer) error {
	if err := c.checkParts("Allgatherv", dst); err != nil {
		return err
	}
	in, out := c.parts(dst, false), c.dataOf(src, true)
	defer in.release()
	defer out.release()
	return in.storeParts(dst, c.Allgatherv(in.b, in.counts, in.displs, out.b, c.elementsOfParts(src, dst, nil)))
}

// AlltoallwData sends src[i] to rank i, and receives into dst[i] from rank i. call is Alltoallw, or Alltoallv of a slice.
func (c *Comm) AlltoallwData(call perf.Op, dst, src *Buffers) error {
	if err := c.checkParts(call.String(), dst); err != nil {
		return err
	}
	in, out := c.parts(dst, false), c.parts(src, true)
	defer in.release()
	defer out.release()
	k := c.elementsOfParts(nil, src, dst)
	return in.storeParts(dst, c.alltoallv(call, in.b, in.counts, in.displs, out.b, out.counts, out.displs, k))
}
