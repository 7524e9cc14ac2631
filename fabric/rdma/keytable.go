package rdma

import (
	"github.com/ibrun/ibrun/fabric/rdma/internal/transfer"
	"github.com/ibrun/ibrun/verbs"
)

// openKeyTable allocates the key table, and the memory into which those of peers are read.
func (d *domain) openKeyTable(pd *verbs.PD) (err error) {
	if d.keys, err = d.regions.OpenTable(pd); err != nil {
		return err
	}
	return d.keyReads.Open(pd)
}

// readKeys starts to read the keys for the rails beyond the first. Without room for that, the transfer uses the first rail
// only.
func (d *domain) readKeys(e *endpoint, o *transfer.Op) {
	q := e.qps[0]
	slot, sge, ok := d.keyReads.Next()
	if !ok || !d.hasRoom(q, shareTransfers) {
		return
	}
	at := verbs.Remote{Addr: e.keys.Addr + transfer.RowOffset(o.Row), RKey: e.keys.RKey}
	f := verbs.Signaled | d.doorbells.atOnce
	if q.qp.Read(q.wrID(q.tail), f, at, sge) != nil {
		return // the queue pair has failed, and its completions report that
	}
	d.keyReads.Take()
	q.push(request{kind: requestKeyRead, op: o, slot: slot}, f)
	d.inFlight[0]++
	o.KeyState = transfer.KeysReading
}

// keysRead stores keys that were read.
func (d *domain) keysRead(o *transfer.Op, slot uint32) {
	o.TakeKeys(d.keyReads.Row(slot))
	d.keyReads.Give(slot)
}
