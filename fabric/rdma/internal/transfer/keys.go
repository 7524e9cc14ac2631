package transfer

import (
	"encoding/binary"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/memory"
	"github.com/ibrun/ibrun/verbs"
)

// With several rails, a region has a key for each. A fabric.RemoteKey has room only for the key of
// the first rail and the number of a row in a table of this process, which holds all keys of the
// region. Peers read the row by RDMA when they use other rails.

// NoRow is the row number of a region without a row.
const NoRow = 1<<16 - 1

const (
	rowBytes    = 4 * cm.MaxRails // of the table: a key for each rail, 4 bytes each, little-endian
	maxRows     = 1 << 12
	maxKeyReads = 256 // rows of peers' tables that can be read at the same time
)

// KeyReads is the memory into which rows of peers' key tables are read. It is guarded by the lock
// of the domain. The zero value has no memory.
type KeyReads struct {
	free []uint32 // slots of mem
	mr   *verbs.MR
	mem  []byte // nil if there is only one rail
}

// Open allocates the memory, and registers it.
func (k *KeyReads) Open(pd *verbs.PD) (err error) {
	if k.mem, err = memory.Map(maxKeyReads * rowBytes); err != nil {
		return err
	}
	for i := range uint32(maxKeyReads) {
		k.Give(i)
	}
	k.mr, err = pd.Register(k.mem, verbs.LocalWrite)
	return err
}

// Next returns the slot that Take takes, and a scatter/gather entry for it. ok is false if all are
// in use.
func (k *KeyReads) Next() (slot uint32, sge verbs.SGE, ok bool) {
	n := len(k.free)
	if n == 0 {
		return 0, verbs.SGE{}, false
	}
	slot = k.free[n-1]
	return slot, k.mr.SGE(rowBytes*int(slot), rowBytes), true
}

// Take takes the slot that Next has returned.
func (k *KeyReads) Take() { k.free = k.free[:len(k.free)-1] }

// Give frees a slot.
func (k *KeyReads) Give(slot uint32) { k.free = append(k.free, slot) }

// Row returns the row that was read into a slot.
func (k *KeyReads) Row(slot uint32) []byte { return k.mem[rowBytes*int(slot):][:rowBytes] }

// Unmap frees the memory. The device must be closed before.
func (k *KeyReads) Unmap() {
	if k.mem != nil {
		memory.Unmap(k.mem)
		k.mem = nil
	}
}

// RowOffset returns the offset of a row in a key table.
func RowOffset(row uint16) uint64 { return rowBytes * uint64(row) }

// RemoteKey returns the key by which peers name memory:
//
//	0   key of the first rail  32 bits
//	32  row                    16 bits
//	48  check                  16 bits, over the rest and the incarnation
//
// The check keeps keys of other peers and invented keys away from the device, where they would
// break the connection.
func RemoteKey(incarnation uint64, row uint16, rkey uint32) uint64 {
	mixed := (incarnation ^ uint64(rkey)*0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	check := uint16(mixed>>48) ^ row*0x9e37 // different for any two rows
	return uint64(check)<<48 | uint64(row)<<32 | uint64(rkey)
}

// RowOfKey returns the row that a key of RemoteKey names, and the key of the first rail.
func RowOfKey(key uint64) (row uint16, rkey uint32) { return uint16(key >> 32), uint32(key) }

// TakeKeys stores the keys of a row that was read. If the row belongs to another region by now, the
// transfer uses the first rail only, and fails.
func (o *Op) TakeKeys(row []byte) {
	if o.KeyState = KeysNone; binary.LittleEndian.Uint32(row) != o.RKeys[0] {
		o.Row = NoRow
		return
	}
	for i := range o.RKeys {
		o.RKeys[i] = binary.LittleEndian.Uint32(row[4*i:])
	}
	o.KeyState = KeysReady
}
