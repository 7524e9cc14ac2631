package rdma

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/transfer"
)

var _ fabric.Scatterer = (*endpoint)(nil)

// minScattered is the mean length of blocks from which on the device stores the bytes where they belong. If they are shorter,
// the requests cost more than a copy: over a simulated adapter that moves bytes at the speed of memory, 256 KiB in blocks of
// 2 KiB took 20 us instead of 8 with a copy, in blocks of 4 KiB 6.5 instead of 7.1, and of 16 KiB 3.6 instead of 6.6.
const minScattered = 4 << 10

// errShortBlocks says that it is better to read to contiguous memory, and to copy.
var errShortBlocks = fmt.Errorf("fabric/rdma: %w: the blocks are too short for the device", fabric.ErrNotSupported)

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
	if dst.BlockLen() < minScattered || d.rails[0].room.Entries < 2 {
		return false, errShortBlocks
	}
	if err := e.checkKey(src); err != nil {
		return false, err
	}
	keys, err := d.poster.CoverParts(&d.regions, local, dst, from, n)
	if err != nil {
		return false, fmt.Errorf("fabric/rdma: transfer with peer %d: %w", e.peer, err)
	}
	if e.peer == d.self {
		return true, d.poster.CopyParts(&d.regions, dst, from, n, src)
	}
	if n == 0 {
		return true, nil
	}
	return false, e.start(&transfer.Op{Token: token, Sink: dst, From: from, Keys: keys, Bytes: n, Rail: rail}, src)
}
