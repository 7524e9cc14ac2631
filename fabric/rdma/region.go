package rdma

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/memaddr"
	"github.com/ibrun/ibrun/verbs"
)

// regions is the caller's registered memory. Its methods may be called by any goroutine.
//
// A local handle is the number of a slot and how often it was used. The keys of the rails beyond the first do not fit a
// remote key: they are in a table that peers read, in the row of the slot's number.
type regions struct {
	incarnation uint64
	register    func(b []byte) (registration, error)
	rows        []byte // the table, nil if there is one rail

	mu    sync.Mutex
	slots []region
	free  []uint32
	index map[span]uint32 // memory that is registered, by where it is
}

// span is where memory is.
type span struct{ addr, bytes uint64 }

type region struct {
	span
	own   []byte
	use   uint32 // how often the slot was used, never 0 while it is
	count int    // registrations by the caller; 0: free
	registration
}

// registration is what the devices know of a region.
type registration struct {
	mrs  [maxRails]*verbs.MR // by rail
	keys [maxRails]memoryKeys
}

type memoryKeys struct{ local, remote uint32 }

// keyTable is where a peer's table of keys is.
type keyTable struct {
	addr uint64
	rkey uint32
}

const (
	rowBytes = 4 * maxRails // of the table: a key for each rail, 4 bytes each, little-endian
	mostRows = 1 << 12
	noRow    = 1<<16 - 1 // of a region that has none
)

// remoteKey is what peers name memory by, and the number of its row:
//
//	0   key of the first rail  32 bits
//	32  row                    16 bits
//	48  check                  16 bits, over the rest and the incarnation
//
// So neither a key of another peer nor one that was made up gets as far as the device, where it would break the connection.
func remoteKey(incarnation uint64, row uint16, rkey uint32) uint64 {
	mixed := (incarnation ^ uint64(rkey)*0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	check := uint16(mixed>>48) ^ row*0x9e37 // different for any two rows
	return uint64(check)<<48 | uint64(row)<<32 | uint64(rkey)
}

func (r registration) close() error {
	var first error
	for _, mr := range r.mrs {
		if mr == nil {
			continue
		}
		if err := mr.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// add registers memory, or counts once more what is registered already.
func (t *regions) add(b []byte) (fabric.Region, error) {
	s := span{memaddr.Of(b), uint64(len(b))}
	t.mu.Lock()
	defer t.mu.Unlock()
	i, ok := t.index[s]
	if ok {
		t.slots[i].count++
		return t.region(i), nil
	}
	var reg registration
	if len(b) > 0 {
		var err error
		if reg, err = t.register(b); err != nil {
			return fabric.Region{}, fmt.Errorf("fabric/rdma: register %d bytes: %w", len(b), err)
		}
	}
	if n := len(t.free); n > 0 {
		i, t.free = t.free[n-1], t.free[:n-1]
	} else {
		i = uint32(len(t.slots))
		t.slots = append(t.slots, region{})
	}
	t.slots[i] = region{span: s, own: b, use: max(t.slots[i].use+1, 1), count: 1, registration: reg}
	t.index[s] = i
	t.setRow(i)
	return t.region(i), nil
}

// setRow tells the peers the keys of a region. They learn of the row later, from the remote key.
func (t *regions) setRow(i uint32) {
	if t.row(i) == noRow {
		return
	}
	for rail, k := range t.slots[i].keys {
		binary.LittleEndian.PutUint32(t.rows[rowBytes*int(i)+4*rail:], k.remote)
	}
}

func (t *regions) row(i uint32) uint16 {
	if t.rows == nil || i >= mostRows {
		return noRow
	}
	return uint16(i)
}

func (t *regions) region(i uint32) fabric.Region {
	r := &t.slots[i]
	key := remoteKey(t.incarnation, t.row(i), r.keys[0].remote)
	return fabric.Region{Remote: fabric.RemoteKey{Addr: r.addr, Key: key}, Local: uint64(r.use)<<32 | uint64(i)}
}

// find is the region of a handle, nil if it is none or no longer. The caller holds the lock.
func (t *regions) find(local uint64) *region {
	i := uint32(local)
	if uint64(i) >= uint64(len(t.slots)) || t.slots[i].count == 0 || t.slots[i].use != uint32(local>>32) {
		return nil
	}
	return &t.slots[i]
}

// remove undoes one add.
func (t *regions) remove(local uint64) error {
	t.mu.Lock()
	r := t.find(local)
	if r == nil {
		t.mu.Unlock()
		return fmt.Errorf("fabric/rdma: deregister: no such region")
	}
	if r.count--; r.count > 0 {
		t.mu.Unlock()
		return nil
	}
	delete(t.index, r.span)
	t.free = append(t.free, uint32(local))
	reg := r.registration
	r.registration, r.own = registration{}, nil
	t.mu.Unlock()
	if err := reg.close(); err != nil {
		return fmt.Errorf("fabric/rdma: deregister: %w", err)
	}
	return nil
}

// cover returns the keys of the region that covers b.
func (t *regions) cover(local uint64, b []byte) (keys [maxRails]memoryKeys, err error) {
	addr, n := memaddr.Of(b), uint64(len(b))
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.find(local)
	if r == nil {
		return keys, fmt.Errorf("the local memory is not registered")
	}
	if addr < r.addr || addr-r.addr > r.bytes || n > r.bytes-(addr-r.addr) {
		return keys, fmt.Errorf("the local memory is not covered by its registration of %d bytes", r.bytes)
	}
	return r.keys, nil
}

// copy copies between b and memory of our own that a key names.
func (t *regions) copy(write bool, b []byte, at fabric.RemoteKey) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.slots {
		r := &t.slots[i]
		if r.count == 0 || r.keys[0].remote != uint32(at.Key) || at.Addr < r.addr || at.Addr-r.addr > r.bytes ||
			uint64(len(b)) > r.bytes-(at.Addr-r.addr) {
			continue
		}
		if own := r.own[at.Addr-r.addr:][:len(b)]; write {
			copy(own, b)
		} else {
			copy(b, own)
		}
		return nil
	}
	return fmt.Errorf("fabric/rdma: transfer with ourselves: %d bytes at %#x are not registered", len(b), at.Addr)
}
