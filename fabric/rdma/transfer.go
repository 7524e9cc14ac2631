package rdma

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/memaddr"
	"github.com/ibrun/ibrun/verbs"
)

// op is a Read or a Write. Its pieces are posted in order. It is guarded by domain.mu.
type op struct {
	next   *op
	token  uint64
	write  bool
	ended  bool
	local  uint64
	keys   [maxRails]memoryKeys
	remote uint64
	rkeys  [maxRails]uint32 // by rail; those beyond the first once they have been fetched
	row    uint16           // of the peer's table
	rail   int8             // the one to take, or anyRail
	bytes  int
	posted int // bytes of pieces that were posted
	done   int // bytes of pieces that are done
	fetch  fetch
	err    error // why it ends when the connection has been taken down
}

// fetch is how far the keys for the rails beyond the first are.
type fetch uint8

const (
	fetchNot  fetch = iota // they are not needed, or not yet
	fetching               // they are being read
	fetchDone              // they are there
)

func (e *endpoint) Read(dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error) {
	return e.transfer(false, dst, local, src, token, anyRail)
}

func (e *endpoint) Write(src []byte, local fabric.Region, dst fabric.RemoteKey, token uint64) (bool, error) {
	return e.transfer(true, src, local, dst, token, anyRail)
}

// anyRail leaves it to the transfer which rails it takes.
const anyRail = -1

func (e *endpoint) transfer(write bool, b []byte, local fabric.Region, at fabric.RemoteKey, token uint64,
	rail int8) (bool, error) {
	if why := e.ended.Load(); why != nil {
		return false, why.err
	}
	d := e.d
	keys, err := d.regions.cover(local.Local, b)
	if err != nil {
		return false, fmt.Errorf("fabric/rdma: transfer with peer %d: %w", e.peer, err)
	}
	row, rkey := uint16(at.Key>>32), uint32(at.Key)
	if at.Key != remoteKey(e.at.incarnation, row, rkey) {
		return false, fmt.Errorf("fabric/rdma: transfer with peer %d: key %#x is none of its keys", e.peer, at.Key)
	}
	if e.peer == d.self {
		return true, d.regions.copy(write, b, at)
	}
	if len(b) == 0 {
		return true, nil
	}
	d.mu.Lock()
	if why := e.ended.Load(); why != nil { // once more: whoever sets it then ends what it finds here
		d.mu.Unlock()
		return false, why.err
	}
	o := d.spare
	if o == nil {
		o = new(op)
	}
	d.spare = o.next
	*o = op{token: token, write: write, local: memaddr.Of(b), keys: keys, remote: at.Addr, row: row, bytes: len(b),
		rail: rail}
	o.rkeys[0] = rkey
	d.moving.Add(1)
	if e.last == nil {
		e.first = o
	} else {
		e.last.next = o
	}
	e.last = o
	if e.unposted == nil {
		e.unposted = o
	}
	if !e.up {
		e.wantLocked()
		d.mu.Unlock()
		return false, d.sleeper.wake()
	}
	queues := e.queues
	d.pump(e)
	d.mu.Unlock()
	for _, q := range queues {
		_ = q.qp.Ring() // what fails is told by completions
	}
	if d.armed.Load() {
		return false, d.sleeper.wake() // who sleeps has not asked to be told of its end
	}
	return false, nil
}

// pump posts pieces of transfers as long as there is room. The caller holds the lock, and rings.
func (d *domain) pump(e *endpoint) {
	if !e.up {
		return
	}
	for ; e.unposted != nil; e.unposted = e.unposted.next {
		o := e.unposted
		if o.ended {
			continue
		}
		if o.posted == 0 && o.fetch == fetchNot && o.row != noRow && e.needsKeys(o) {
			d.fetchKeys(e, o)
		}
		for o.posted < o.bytes {
			q := d.roomiest(e, o)
			if q == nil || !d.postPiece(q, o) {
				return
			}
		}
	}
}

// needsKeys tells whether a transfer is to take rails beyond the first: the one that it was given, or all if it is long
// enough for two pieces.
func (e *endpoint) needsKeys(o *op) bool {
	if len(e.queues) == 1 || o.rail == 0 {
		return false
	}
	return o.rail > 0 || o.bytes >= 2*e.queues[0].rail.piece
}

// roomiest is the queue pair that the next piece of a transfer is to go to, nil if none has room. While the keys for other
// rails are being read, the first gets no more than its share, which is nothing if another was asked for.
func (d *domain) roomiest(e *endpoint, o *op) *queue {
	queues := e.queues
	switch {
	case o.fetch == fetching && (o.rail > 0 || o.posted >= o.bytes/len(queues)):
		return nil
	case o.fetch != fetchDone:
		queues = queues[:1]
	case o.rail > 0:
		queues = queues[o.rail : o.rail+1]
	}
	var best *queue
	for _, q := range queues {
		i := q.rail.index
		if q.under() < ofPieces && q.pacer.room() && d.under[i] < q.rail.most && (best == nil || q.under() < best.under()) {
			best = q
		}
	}
	return best
}

// fetchKeys reads the keys for the rails beyond the first. Without room for that, the first rail does it alone.
func (d *domain) fetchKeys(e *endpoint, o *op) {
	q, n := e.queues[0], len(d.scraps)
	if n == 0 || q.under() >= ofPieces || d.under[0] >= q.rail.most {
		return
	}
	scrap := d.scraps[n-1]
	at := verbs.Remote{Addr: e.keys.addr + rowBytes*uint64(o.row), RKey: e.keys.rkey}
	if q.qp.Read(q.id(q.tail), verbs.Signaled, at, d.scrapMR.SGE(rowBytes*int(scrap), rowBytes)) != nil {
		return // the pair has failed, and its completions tell
	}
	d.scraps = d.scraps[:n-1]
	q.push(record{work: workKeys, op: o, slot: scrap}, verbs.Signaled)
	d.under[0]++
	o.fetch = fetching
}

// fetched takes keys that were read. If the row is of other memory by now, the first rail does it alone, and fails.
func (d *domain) fetched(o *op, scrap uint32) {
	row := d.scrapMem[rowBytes*int(scrap):][:rowBytes]
	d.scraps = append(d.scraps, scrap)
	if o.fetch = fetchNot; binary.LittleEndian.Uint32(row) != o.rkeys[0] {
		o.row = noRow
		return
	}
	for i := range o.rkeys {
		o.rkeys[i] = binary.LittleEndian.Uint32(row[4*i:])
	}
	o.fetch = fetchDone
}

// postPiece posts the next piece of a transfer.
func (d *domain) postPiece(q *queue, o *op) bool {
	n := min(o.bytes-o.posted, q.pacer.size())
	i := q.rail.index
	sge := verbs.SGE{Addr: o.local + uint64(o.posted), Len: uint32(n), LKey: o.keys[i].local}
	at := verbs.Remote{Addr: o.remote + uint64(o.posted), RKey: o.rkeys[i]}
	const f = verbs.Signaled // each is large, and the last on each rail has to report
	var err error
	if o.write {
		err = q.qp.Write(q.id(q.tail), f, at, sge)
	} else {
		err = q.qp.Read(q.id(q.tail), f, at, sge)
	}
	if err != nil {
		return false // the pair has failed, and its completions tell
	}
	q.push(record{work: workPiece, op: o, bytes: uint32(n)}, f)
	d.under[i]++
	o.posted += n
	return true
}

// end ends a transfer. The caller holds the lock.
func (d *domain) end(e *endpoint, o *op, err error) {
	o.ended = true
	d.moving.Add(-1)
	d.inbox.put(item{kind: fabric.Done, e: e, token: o.token, err: err})
	for e.first != nil && e.first.ended {
		o := e.first
		if e.unposted == o {
			e.unposted = o.next
		}
		if e.first = o.next; e.first == nil {
			e.last = nil
		}
		*o = op{next: d.spare}
		d.spare = o
	}
}

// endTransfers ends all transfers with a peer.
func (d *domain) endTransfers(e *endpoint, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for o := e.first; o != nil; o = e.first {
		for o.ended {
			o = o.next
		}
		d.end(e, o, err)
	}
}

// restart prepares the transfers to be posted again, after the connection was taken down, and ends those that have failed.
func (d *domain) restart(e *endpoint) {
	for o := e.first; o != nil; o = o.next {
		switch {
		case o.ended: // behind one that is not; its memory is its owner's again
		case len(e.queues) > 1:
			o.posted, o.done, o.fetch = 0, 0, fetchNot // pieces were done in any order
		default:
			o.posted = o.done
		}
	}
	e.unposted = e.first
	for o := e.first; o != nil; {
		if o.err == nil || o.ended {
			o = o.next
			continue
		}
		d.end(e, o, o.err)
		o = e.first // it may have taken others off the list, those behind it among them
	}
}
