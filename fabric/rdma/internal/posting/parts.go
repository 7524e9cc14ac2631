package posting

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/transfer"
	"github.com/ibrun/ibrun/internal/memaddr"
	"github.com/ibrun/ibrun/verbs"
)

// A Read whose destination is in parts is split into pieces as others are. A piece ends earlier if
// its parts are more than the entries of a request. All that is known about its progress is the
// number of packed bytes that were posted and have arrived. So it is striped, and posted again
// after a connection has broken, like others.

// MaxEntries is the most entries of a request. Each queue pair has room for so many in memory and
// in its queue.
const MaxEntries = 4

// parts has room for the entries of a request. It is guarded by Poster.Mu.
type parts struct {
	blocks [MaxEntries]fabric.Block
	sges   [MaxEntries]verbs.SGE
}

// CoverParts returns the keys of the region of a handle. It returns an error if the region does not
// cover n bytes of the sink. It takes the lock.
func (p *Poster) CoverParts(regions *transfer.Regions, local fabric.Region, dst fabric.Sink, from int64,
	n int) (keys [cm.MaxRails]transfer.MemoryKeys, err error) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for at, to := from, from+int64(n); at < to; {
		k, next := dst.Blocks(p.parts.blocks[:], at, to)
		if k == 0 {
			return keys, fmt.Errorf("the local memory has fewer than %d bytes from byte %d on", n, from)
		}
		for _, b := range p.parts.blocks[:k] {
			if keys, err = regions.Cover(local.Local, dst.Slice(b)); err != nil {
				return keys, err
			}
		}
		at = next
	}
	return keys, nil
}

// CopyParts reads n bytes of this process's own registered memory into a sink. It takes the lock.
func (p *Poster) CopyParts(regions *transfer.Regions, dst fabric.Sink, from int64, n int, src fabric.RemoteKey) error {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for at, to := from, from+int64(n); at < to; {
		k, next := dst.Blocks(p.parts.blocks[:], at, to)
		for _, b := range p.parts.blocks[:k] {
			if err := regions.Copy(false, dst.Slice(b), src); err != nil {
				return err
			}
			src.Addr += uint64(b.Len)
		}
		at = next
	}
	return nil
}

// entries returns the entries for the next piece of a Read over a rail, and its length, which is at
// most n.
func (s *parts) entries(r *Rail, o *transfer.Op, n int) (sges []verbs.SGE, bytes int) {
	at := o.From + int64(o.Posted)
	k, next := o.Sink.Blocks(s.blocks[:min(MaxEntries, r.Entries)], at, at+int64(n))
	for i, b := range s.blocks[:k] {
		s.sges[i] = verbs.SGE{Addr: memaddr.Of(o.Sink.Slice(b)), Len: uint32(b.Len), LKey: o.Keys[r.Index].Local}
	}
	return s.sges[:k], int(next - at)
}
