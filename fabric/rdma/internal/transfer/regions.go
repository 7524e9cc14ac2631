package transfer

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/memory"
	"github.com/ibrun/ibrun/internal/memaddr"
	"github.com/ibrun/ibrun/verbs"
)

// Regions is the registered memory of the caller. Any goroutine may call its methods.
//
// A local handle consists of the number of a slot and the slot's generation. The slot number is
// also the number of the row in the key table, see keys.go.
type Regions struct {
	// Table is where peers find the key table. It is zero without one, and constant after
	// OpenTable.
	Table cm.KeyTable

	incarnation uint64
	register    func(b []byte) (Registration, error)
	rows        []byte // the key table, nil if there is only one rail

	mu     sync.Mutex // guards the following fields
	slots  []region
	free   []uint32
	bySpan map[span]uint32 // slots of registered memory
}

// span is a range of memory.
type span struct{ addr, bytes uint64 }

type region struct {
	span
	mem        []byte
	generation uint32 // how often the slot was used; not 0 while the slot is in use
	refs       int    // registrations by the caller; 0: the slot is free
	Registration
}

// Registration is a registration of memory with the devices.
type Registration struct {
	MRs  [cm.MaxRails]*verbs.MR  // by rail
	Keys [cm.MaxRails]MemoryKeys // likewise
}

// MemoryKeys are the keys of memory that one device has registered: for requests of this process,
// and of peers.
type MemoryKeys struct{ Local, Remote uint32 }

// Close ends the registration with all devices. It returns the first error.
func (r Registration) Close() error {
	var first error
	for _, mr := range r.MRs {
		if mr == nil {
			continue
		}
		if err := mr.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Init sets the incarnation of the domain, and the function that registers memory with the devices.
// It must be called first.
func (t *Regions) Init(incarnation uint64, register func(b []byte) (Registration, error)) {
	t.incarnation, t.register, t.bySpan = incarnation, register, map[span]uint32{}
}

// OpenTable allocates the key table, which is needed with several rails.
func (t *Regions) OpenTable(pd *verbs.PD) (err error) {
	if t.rows, err = memory.Map(maxRows * rowBytes); err != nil {
		return err
	}
	mr, err := pd.Register(t.rows, verbs.RemoteRead)
	if err != nil {
		return err
	}
	r := mr.Remote(0)
	t.Table = cm.KeyTable{Addr: r.Addr, RKey: r.RKey}
	return nil
}

// Unmap frees the key table. The device must be closed before.
func (t *Regions) Unmap() {
	if t.rows != nil {
		memory.Unmap(t.rows)
		t.rows = nil
	}
}

// Add registers memory. If the same memory is registered already, it only counts one more
// registration.
func (t *Regions) Add(b []byte) (fabric.Region, error) {
	s := span{memaddr.Of(b), uint64(len(b))}
	t.mu.Lock()
	defer t.mu.Unlock()
	i, ok := t.bySpan[s]
	if ok {
		t.slots[i].refs++
		return t.handle(i), nil
	}
	var reg Registration
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
	t.slots[i] = region{span: s, mem: b, generation: max(t.slots[i].generation+1, 1), refs: 1, Registration: reg}
	t.bySpan[s] = i
	t.writeRow(i)
	return t.handle(i), nil
}

// writeRow writes the keys of a region into its row. Peers read the row only after they have
// received the remote key.
func (t *Regions) writeRow(i uint32) {
	if t.rowOf(i) == NoRow {
		return
	}
	for rail, k := range t.slots[i].Keys {
		binary.LittleEndian.PutUint32(t.rows[rowBytes*int(i)+4*rail:], k.Remote)
	}
}

// rowOf returns the row of a slot, or NoRow.
func (t *Regions) rowOf(i uint32) uint16 {
	if t.rows == nil || i >= maxRows {
		return NoRow
	}
	return uint16(i)
}

// handle returns what the caller uses to refer to a slot.
func (t *Regions) handle(i uint32) fabric.Region {
	r := &t.slots[i]
	key := RemoteKey(t.incarnation, t.rowOf(i), r.Keys[0].Remote)
	return fabric.Region{Remote: fabric.RemoteKey{Addr: r.addr, Key: key}, Local: uint64(r.generation)<<32 | uint64(i)}
}

// find returns the region of a handle, nil if there is no such region (any more). The caller must
// hold mu.
func (t *Regions) find(local uint64) *region {
	i := uint32(local)
	if uint64(i) >= uint64(len(t.slots)) || t.slots[i].refs == 0 || t.slots[i].generation != uint32(local>>32) {
		return nil
	}
	return &t.slots[i]
}

// Remove reverts one Add.
func (t *Regions) Remove(local uint64) error {
	t.mu.Lock()
	r := t.find(local)
	if r == nil {
		t.mu.Unlock()
		return fmt.Errorf("fabric/rdma: deregister: no such region")
	}
	if r.refs--; r.refs > 0 {
		t.mu.Unlock()
		return nil
	}
	delete(t.bySpan, r.span)
	t.free = append(t.free, uint32(local))
	reg := r.Registration
	r.Registration, r.mem = Registration{}, nil
	t.mu.Unlock()
	if err := reg.Close(); err != nil {
		return fmt.Errorf("fabric/rdma: deregister: %w", err)
	}
	return nil
}

// Cover returns the keys of the region of a handle. It returns an error if the region does not
// cover b.
func (t *Regions) Cover(local uint64, b []byte) (keys [cm.MaxRails]MemoryKeys, err error) {
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
	return r.Keys, nil
}

// Copy copies between b and the memory of this process that a key names.
func (t *Regions) Copy(write bool, b []byte, at fabric.RemoteKey) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.slots {
		r := &t.slots[i]
		if r.refs == 0 || r.Keys[0].Remote != uint32(at.Key) || at.Addr < r.addr || at.Addr-r.addr > r.bytes ||
			uint64(len(b)) > r.bytes-(at.Addr-r.addr) {
			continue
		}
		if own := r.mem[at.Addr-r.addr:][:len(b)]; write {
			copy(own, b)
		} else {
			copy(b, own)
		}
		return nil
	}
	return fmt.Errorf("fabric/rdma: transfer within this process: %d bytes at %#x are not registered", len(b), at.Addr)
}
