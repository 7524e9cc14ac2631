package rdma

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/transfer"
	"github.com/ibrun/ibrun/internal/memaddr"
	"github.com/ibrun/ibrun/verbs"
)

// A Read whose destination is in parts is split into pieces as others are. A piece ends earlier if its parts are more than the
// entries of a request. All that is known about its progress is the number of packed bytes that were posted and have arrived. So
// it is striped, and posted again after a connection has broken, like others.

var _ fabric.Scatterer = (*endpoint)(nil)

const (
	// maxScattered is the most entries of a request. Each queue pair has room for so many in memory and in its queue.
	maxScattered = 4
	// minScattered is the mean length of blocks from which on the device stores the bytes where they belong. If they are shorter,
	// the requests cost more than a copy: over a simulated adapter that moves bytes at the speed of memory, 256 KiB in blocks of
	// 2 KiB took 20 us instead of 8 with a copy, in blocks of 4 KiB 6.5 instead of 7.1, and of 16 KiB 3.6 instead of 6.6.
	minScattered = 4 << 10
)

// errShortBlocks says that it is better to read to contiguous memory, and to copy.
var errShortBlocks = fmt.Errorf("fabric/rdma: %w: the blocks are too short for the device", fabric.ErrNotSupported)

// scatter has room for the entries of a request. It is guarded by domain.mu.
type scatter struct {
	blocks [maxScattered]fabric.Block
	sges   [maxScattered]verbs.SGE
}

// ReadTo lets the device store the bytes where they belong, if the blocks are long.
func (e *endpoint) ReadTo(dst fabric.Sink, from int64, n int, local fabric.Region, src fabric.RemoteKey,
	token uint64) (bool, error) {
	return e.readTo(dst, from, n, local, src, token, transfer.AnyRail)
}

// ReadTo is that of the endpoint, restricted to the rail.
func (r *railEndpoint) ReadTo(dst fabric.Sink, from int64, n int, local fabric.Region, src fabric.RemoteKey,
	token uint64) (bool, error) {
	return r.readTo(dst, from, n, local, src, token, r.rail)
}

func (e *endpoint) readTo(dst fabric.Sink, from int64, n int, local fabric.Region, src fabric.RemoteKey, token uint64,
	rail int8) (bool, error) {
	if why := e.ended.Load(); why != nil {
		return false, why.err
	}
	d := e.d
	if dst.BlockLen() < minScattered || d.rails[0].Granted.SGE < 2 {
		return false, errShortBlocks
	}
	if err := e.checkKey(src); err != nil {
		return false, err
	}
	keys, err := d.coverParts(local, dst, from, n)
	if err != nil {
		return false, fmt.Errorf("fabric/rdma: transfer with peer %d: %w", e.peer, err)
	}
	if e.peer == d.self {
		return true, d.copyParts(dst, from, n, src)
	}
	if n == 0 {
		return true, nil
	}
	return false, e.start(&transfer.Op{Token: token, Sink: dst, From: from, Keys: keys, Bytes: n, Rail: rail}, src)
}

// coverParts returns the keys of the region of a handle. It returns an error if the region does not cover n bytes of the sink.
func (d *domain) coverParts(local fabric.Region, dst fabric.Sink, from int64,
	n int) (keys [cm.MaxRails]transfer.MemoryKeys, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, to := from, from+int64(n); at < to; {
		k, next := dst.Blocks(d.scatter.blocks[:], at, to)
		if k == 0 {
			return keys, fmt.Errorf("the local memory has fewer than %d bytes from byte %d on", n, from)
		}
		for _, b := range d.scatter.blocks[:k] {
			if keys, err = d.regions.Cover(local.Local, dst.Slice(b)); err != nil {
				return keys, err
			}
		}
		at = next
	}
	return keys, nil
}

// copyParts reads n bytes of this process's own registered memory into a sink.
func (d *domain) copyParts(dst fabric.Sink, from int64, n int, src fabric.RemoteKey) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, to := from, from+int64(n); at < to; {
		k, next := dst.Blocks(d.scatter.blocks[:], at, to)
		for _, b := range d.scatter.blocks[:k] {
			if err := d.regions.Copy(false, dst.Slice(b), src); err != nil {
				return err
			}
			src.Addr += uint64(b.Len)
		}
		at = next
	}
	return nil
}

// list returns the entries for the next piece of a Read, and its length, which is at most n.
func (s *scatter) list(q *queuePair, o *transfer.Op, n int) (sges []verbs.SGE, bytes int) {
	at := o.From + int64(o.Posted)
	k, next := o.Sink.Blocks(s.blocks[:min(maxScattered, q.rail.Granted.SGE)], at, at+int64(n))
	for i, b := range s.blocks[:k] {
		s.sges[i] = verbs.SGE{Addr: memaddr.Of(o.Sink.Slice(b)), Len: uint32(b.Len), LKey: o.Keys[q.rail.Index].Local}
	}
	return s.sges[:k], int(next - at)
}
