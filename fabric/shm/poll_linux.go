package shm

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
	ring "github.com/ibrun/ibrun/internal/shm"
)

// Poll reads messages from the rings round-robin. From a ring where the Poll before found nothing it takes one message only,
// because the program is likely to answer it. If evs is too short for all, the next Poll continues with the next ring. Ends of
// peers that this Poll finds while it reads messages are reported by the next one.
func (d *Domain) Poll(evs []fabric.Event) (int, error) {
	if d.inbounds.borrowed != nil {
		d.releaseBorrowed()
	}
	if d.slowPoll {
		if err := d.checkState(); err != nil {
			return 0, err
		}
	}
	if atomic.LoadUint64(&d.self.changes) != d.changesSeen {
		d.checkChanges()
	}
	n := 0
	if d.slowPoll { // before the messages, which may never end
		n = d.deliverDown(evs)
	}
	for i := d.inbounds.next; i < len(d.inbounds.all) && n < len(evs); i++ {
		in, before := d.inbounds.all[i], n
		for {
			data := in.r.NextSame()
			if data == nil {
				if !in.r.Ready() {
					break
				}
				var err error
				if data, err = in.r.Next(); err != nil {
					d.markDown(in.from, corrupt(d.local[in.from], err))
				}
				if data == nil {
					break
				}
			}
			ev := &evs[n] // field by field: the others are not used here, and clearing them costs time
			ev.Kind, ev.Peer, ev.Data = fabric.Message, in.peer, data
			if !in.borrowed {
				in.borrowed, in.nextBorrowed, d.inbounds.borrowed = true, d.inbounds.borrowed, in
			}
			if n++; n == len(evs) {
				d.inbounds.next, d.answerPolls = (i+1)%len(d.inbounds.all), 0
				return n, nil
			}
			if in.wasEmpty { // polling for a second message first would delay the answer until its cache line has arrived
				break
			}
		}
		in.wasEmpty = n == before
	}
	d.inbounds.next = 0
	switch {
	case n != 0:
		d.answerPolls = 0
	case d.toPrefetch != nil:
		d.prefetchRings()
	case d.answerPolls > 0:
		d.prefetchAnswer()
	}
	return n, nil
}

// prefetchAnswer prefetches the next record of the ring on which an answer is expected.
func (d *Domain) prefetchAnswer() {
	d.answerPolls--
	if in := d.inbounds.from[d.lastSentTo]; in != nil {
		in.r.Prefetch()
	}
}

// prefetchRings prepares the rings in toPrefetch for records like the last ones.
func (d *Domain) prefetchRings() {
	for e := d.toPrefetch; e != nil; e = e.nextPrefetch {
		e.inPrefetchList = false
		e.w.Prefetch()
	}
	d.toPrefetch = nil
}

// checkState handles the cases of a Poll after Close, which is an error, and after Arm.
func (d *Domain) checkState() error {
	switch {
	case d.self == nil:
		return fabric.ErrClosed
	case d.armed:
		return d.disarm()
	}
	return nil
}

// deliverDown fills evs with PeerDown events: of peers that are lost, and of peers that have closed, once all their messages have
// been read.
func (d *Domain) deliverDown(evs []fabric.Event) int {
	for _, in := range d.inbounds.all { // markDown replaces the slice
		if in.closed && !in.r.Ready() {
			d.markDown(in.from, in.endedErr)
		}
	}
	k := copy(evs, d.downEvents)
	d.downEvents = slices.Delete(d.downEvents, 0, k)
	d.slowPoll = len(d.downEvents) != 0 || slices.ContainsFunc(d.inbounds.all, func(in *inbound) bool { return in.closed })
	return k
}

// releaseBorrowed releases the records that the last Poll returned. If their writer sleeps for want of room, it is woken. The
// release of the position is a store; the load of the flags is its partner as in Arm.
func (d *Domain) releaseBorrowed() {
	for in := d.inbounds.borrowed; in != nil; in = in.nextBorrowed {
		in.borrowed = false
		if !in.r.Release() {
			continue
		}
		if in.r.Offset() > in.populated {
			in.populateSpace()
		}
		if in.fence {
			d.fence()
		}
		if atomic.LoadUint32(in.flags)&asleep != 0 {
			d.wakePeer(in.from)
		}
	}
	d.inbounds.borrowed = nil
}

// populateSpace enters the pages of a ring that has grown into this process's page table, rather than one by one when records in
// them are read. The writer has allocated them; those of a wrong one are allocated here, 2 MiB at most.
func (in *inbound) populateSpace() {
	for in.populated = mediumSpace; in.populated < min(in.r.Offset(), largeSpace); in.populated *= 2 {
	}
	_ = ring.Populate(in.mem[:ringBytes(in.populated)]) // else the pages are entered when they are touched
}

// checkChanges finds peers that have connected, closed or ended since the last call.
func (d *Domain) checkChanges() {
	d.changesSeen = atomic.LoadUint64(&d.self.changes)
	for from := range d.local {
		bit := uint64(1) << (from % 64)
		// In this order: a peer connects before it closes, and closes before it ends. So if ended or closed is seen, what
		// precedes it is seen as well.
		ended := d.hasEnded(from)
		closed := atomic.LoadUint64(&d.self.closedFrom[from/64])&bit != 0
		if d.inbounds.from[from] == nil && !d.down[from] && atomic.LoadUint64(&d.self.connectedFrom[from/64])&bit != 0 {
			if err := d.accept(from); err != nil {
				d.markDown(from, err)
			}
		}
		if closed && !d.down[from] {
			if in := d.inbounds.from[from]; in != nil {
				in.closed, d.slowPoll = true, true
			} else {
				d.markDown(from, nil)
			}
		}
		if ended {
			d.endOf(from)
		}
	}
}

// accept maps the ring that a peer has made to this one.
func (d *Domain) accept(from int) error {
	mem, err := d.mapRing(from, d.selfIndex)
	if err != nil {
		return fmt.Errorf("shm: accept peer %d: %w", d.local[from], err)
	}
	r, err := ring.NewReader(mem, maxPayload+maxHeader)
	if err != nil {
		return errors.Join(err, ring.Unmap(mem))
	}
	writer := d.controls[from]
	in := &inbound{
		r: r, mem: mem, populated: smallSpace, from: from, peer: int32(d.local[from]), flags: &writer.flags,
		fence: !d.canBarrier || writer.needsFence != 0,
	}
	d.inbounds.from[from] = in
	d.inbounds.all = append(d.inbounds.all, in)
	d.senders.request(from, false)
	return nil
}

// corrupt returns the error for a peer that wrote something that no correct peer writes.
func corrupt(peer int, err error) error {
	return fmt.Errorf("shm: peer %d: %w: %w: %w", peer, fabric.ErrPeerDown, fabric.ErrCorrupt, err)
}

// markDown reports a peer as down, once, and stops reading from it. A nil error says that it has closed in order.
func (d *Domain) markDown(from int, err error) {
	if d.down[from] {
		return
	}
	endErr := &errDown
	if err == nil {
		err, endErr = fabric.ErrPeerClosed, &errPeerClosed
	}
	d.slowPoll = true
	d.downEvents = append(d.downEvents, fabric.Event{Kind: fabric.PeerDown, Peer: int32(d.local[from]), Err: err})
	if e := d.endpoints[from]; e != nil {
		e.endErr.CompareAndSwap(nil, endErr)
	}
	d.stopReading(from)
}

// stopReading stops reading from a peer.
func (d *Domain) stopReading(from int) {
	d.down[from] = true
	if in := d.inbounds.from[from]; in != nil {
		d.inbounds.all = slices.DeleteFunc(slices.Clone(d.inbounds.all), func(x *inbound) bool { return x == in })
		d.inbounds.next = 0
	}
}
