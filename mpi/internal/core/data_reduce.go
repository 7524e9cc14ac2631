package core

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// Reductions of derived data that consists of numbers of one kind. The operation works on the packed numbers.

// reduced returns the elements of a reduction of src into dst by o. A rank of an intercommunicator may have data in one of them
// only, or in none: then the operation says what it is defined on.
func reduced(dst, src *datatype.Buffer, o Op) Elements {
	for _, d := range [...]*datatype.Buffer{src, dst} {
		if d.Size() != 0 {
			return elementsOf(d, 1)
		}
	}
	if user, ok := o.(*userOp); ok {
		return user.elements
	}
	return Elements{kind: datatype.Uint8}
}

// ReduceData is Reduce of the elements of src into those of dst at root.
func (c *Comm) ReduceData(dst, src *datatype.Buffer, o Op, root int) error {
	var unused datatype.Buffer
	if c != nil && !c.isRoot(root) {
		dst = &unused
	}
	if err := c.checkData("Reduce", dst); err != nil {
		return err
	}
	in, out := c.bothData(dst, src, false)
	defer in.release()
	defer out.release()
	return in.store(dst, c.Reduce(in.b, out.b, reduced(dst, src, o), o, root))
}

// AllreduceData is Allreduce of the elements of src into those of dst.
func (c *Comm) AllreduceData(dst, src *datatype.Buffer, o Op) error {
	if err := c.checkData("Allreduce", dst); err != nil {
		return err
	}
	in, out := c.bothData(dst, src, false)
	defer in.release()
	defer out.release()
	return in.store(dst, c.Allreduce(in.b, out.b, reduced(dst, src, o), o))
}

// ReduceScatterData is ReduceScatter of the elements of src into the first elements of dst; counts are numbers.
func (c *Comm) ReduceScatterData(dst, src *datatype.Buffer, counts []int, o Op) error {
	if err := c.checkData("ReduceScatter", dst); err != nil {
		return err
	}
	in, out := c.bothData(dst, src, true)
	defer in.release()
	defer out.release()
	return in.store(dst, c.ReduceScatter(in.b, out.b, counts, reduced(dst, src, o), o))
}

// ReduceScatterBlockData is ReduceScatterData with the same count for all ranks.
func (c *Comm) ReduceScatterBlockData(dst, src *datatype.Buffer, o Op) error {
	if err := c.checkData("ReduceScatterBlock", dst); err != nil {
		return err
	}
	in, out := c.bothData(dst, src, true)
	defer in.release()
	defer out.release()
	return in.store(dst, c.ReduceScatterBlock(in.b, out.b, reduced(dst, src, o), o))
}

// ScanData is Scan of the elements of src into those of dst.
func (c *Comm) ScanData(dst, src *datatype.Buffer, o Op) error {
	if err := c.checkData("Scan", dst); err != nil {
		return err
	}
	in, out := c.bothData(dst, src, false)
	defer in.release()
	defer out.release()
	return in.store(dst, c.Scan(in.b, out.b, reduced(dst, src, o), o))
}

// ExscanData is Exscan of the elements of src into those of dst, which rank 0 does not receive.
func (c *Comm) ExscanData(dst, src *datatype.Buffer, o Op) error {
	if err := c.checkData("Exscan", dst); err != nil {
		return err
	}
	in, out := c.bothData(dst, src, true)
	defer in.release()
	defer out.release()
	return in.store(dst, c.Exscan(in.b, out.b, reduced(dst, src, o), o))
}

// IreduceData starts a Reduce of the elements of src into those of dst at root.
func (c *Comm) IreduceData(start Start, dst, src *datatype.Buffer, o Op, root int) (r Request, err error) {
	if c != nil && !c.isRoot(root) {
		dst = new(datatype.Buffer)
	}
	m, err := c.startViews(perf.Ireduce, start, &r, dst)
	if err != nil {
		return r, err
	}
	in, out := m.views.both(dst, src, isSink)
	err = c.ireduce(m, in, out, reduced(dst, src, o), o, root)
	return r, err
}

// IallreduceData starts an Allreduce of the elements of src into those of dst.
func (c *Comm) IallreduceData(start Start, dst, src *datatype.Buffer, o Op) (r Request, err error) {
	m, err := c.startViews(perf.Iallreduce, start, &r, dst)
	if err != nil {
		return r, err
	}
	in, out := m.views.both(dst, src, isSink)
	err = c.iallreduce(m, in, out, reduced(dst, src, o), o)
	return r, err
}

// IreduceScatterData starts a ReduceScatter of the elements of src into the first elements of dst; counts are numbers.
func (c *Comm) IreduceScatterData(start Start, dst, src *datatype.Buffer, counts []int, o Op) (r Request, err error) {
	m, err := c.startViews(perf.IreduceScatter, start, &r, dst)
	if err != nil {
		return r, err
	}
	in, out := m.views.both(dst, src, isSource|isSink)
	err = c.startReduceScatter(m, in, out, counts, reduced(dst, src, o), o)
	return r, err
}

// IreduceScatterBlockData is IreduceScatterData with the same count for all ranks.
func (c *Comm) IreduceScatterBlockData(start Start, dst, src *datatype.Buffer, o Op) (r Request, err error) {
	m, err := c.startViews(perf.IreduceScatterBlock, start, &r, dst)
	if err != nil {
		return r, err
	}
	in, out := m.views.both(dst, src, isSource|isSink)
	err = c.ireduceScatterBlock(m, in, out, reduced(dst, src, o), o)
	return r, err
}

// IscanData starts a Scan of the elements of src into those of dst.
func (c *Comm) IscanData(start Start, dst, src *datatype.Buffer, o Op) (r Request, err error) {
	m, err := c.startViews(perf.Iscan, start, &r, dst)
	if err != nil {
		return r, err
	}
	in, out := m.views.both(dst, src, isSink)
	err = c.startPrefix(m, coll.Scan, in, out, reduced(dst, src, o), o)
	return r, err
}

// IexscanData starts an Exscan of the elements of src into those of dst, which rank 0 does not receive.
func (c *Comm) IexscanData(start Start, dst, src *datatype.Buffer, o Op) (r Request, err error) {
	m, err := c.startViews(perf.Iexscan, start, &r, dst)
	if err != nil {
		return r, err
	}
	in, out := m.views.both(dst, src, isSource|isSink)
	err = c.startPrefix(m, coll.Exscan, in, out, reduced(dst, src, o), o)
	return r, err
}
