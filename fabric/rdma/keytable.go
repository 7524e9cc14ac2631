package rdma

import (
	"encoding/binary"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/verbs"
)

// With several rails, a region has a key for each. A fabric.RemoteKey has room only for the key of the first rail and the
// number of a row in a table of this process, which holds all keys of the region. Peers read the row by RDMA when they use
// other rails.

const (
	rowBytes    = 4 * cm.MaxRails // of the table: a key for each rail, 4 bytes each, little-endian
	maxRows     = 1 << 12
	noRow       = 1<<16 - 1 // the row number of a region without a row
	maxKeyReads = 256       // rows of peers' tables that can be read at the same time
)

// keyReads is the memory into which rows of peers' key tables are read. It is guarded by domain.mu.
type keyReads struct {
	free []uint32 // slots of mem
	mr   *verbs.MR
	mem  []byte // nil if there is only one rail
}

// give frees a slot.
func (k *keyReads) give(slot uint32) { k.free = append(k.free, slot) }

// openKeyTable allocates the key table, and the memory into which those of peers are read.
func (d *domain) openKeyTable(pd *verbs.PD) (err error) {
	if d.regions.rows, err = devices.MapMemory(maxRows * rowBytes); err != nil {
		return err
	}
	mr, err := pd.Register(d.regions.rows, verbs.RemoteRead)
	if err != nil {
		return err
	}
	at := mr.Remote(0)
	d.keys = cm.KeyTable{Addr: at.Addr, RKey: at.RKey}
	if d.keyReads.mem, err = devices.MapMemory(maxKeyReads * rowBytes); err != nil {
		return err
	}
	for i := range uint32(maxKeyReads) {
		d.keyReads.give(i)
	}
	d.keyReads.mr, err = pd.Register(d.keyReads.mem, verbs.LocalWrite)
	return err
}

// remoteKey returns the key by which peers name memory:
//
//	0   key of the first rail  32 bits
//	32  row                    16 bits
//	48  check                  16 bits, over the rest and the incarnation
//
// The check keeps keys of other peers and invented keys away from the device, where they would break the connection.
func remoteKey(incarnation uint64, row uint16, rkey uint32) uint64 {
	mixed := (incarnation ^ uint64(rkey)*0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	check := uint16(mixed>>48) ^ row*0x9e37 // different for any two rows
	return uint64(check)<<48 | uint64(row)<<32 | uint64(rkey)
}

// readKeys starts to read the keys for the rails beyond the first. Without room for that, the transfer uses the first rail
// only.
func (d *domain) readKeys(e *endpoint, o *op) {
	q, n := e.qps[0], len(d.keyReads.free)
	if n == 0 || !d.hasRoom(q, shareTransfers) {
		return
	}
	slot := d.keyReads.free[n-1]
	at := verbs.Remote{Addr: e.keys.Addr + rowBytes*uint64(o.row), RKey: e.keys.RKey}
	f := verbs.Signaled | d.doorbells.atOnce
	if q.qp.Read(q.wrID(q.tail), f, at, d.keyReads.mr.SGE(rowBytes*int(slot), rowBytes)) != nil {
		return // the queue pair has failed, and its completions report that
	}
	d.keyReads.free = d.keyReads.free[:n-1]
	q.push(request{kind: requestKeyRead, op: o, slot: slot}, f)
	d.inFlight[0]++
	o.keyState = keysReading
}

// keysRead stores keys that were read. If the row belongs to another region by now, the transfer uses the first rail only, and
// fails.
func (d *domain) keysRead(o *op, slot uint32) {
	row := d.keyReads.mem[rowBytes*int(slot):][:rowBytes]
	d.keyReads.give(slot)
	if o.keyState = keysNone; binary.LittleEndian.Uint32(row) != o.rkeys[0] {
		o.row = noRow
		return
	}
	for i := range o.rkeys {
		o.rkeys[i] = binary.LittleEndian.Uint32(row[4*i:])
	}
	o.keyState = keysReady
}
