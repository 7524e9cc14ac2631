package proto

import (
	"math/bits"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/cost"
	"github.com/ibrun/ibrun/mpi/internal/protocols"
	"github.com/ibrun/ibrun/mpi/internal/regcache"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// The sender of a long message sends an RTS. When the receiver has matched it, the receiver reads
// the payload from the sender's memory, alone or with the sender's assist (copy_assist.go), or
// requests the payload in pieces (datacopy.go).

// maxBytes bounds the length that a peer may claim for a message.
const maxBytes = 1 << 47

// wordStride is the distance between the shared words in use, so that no two transfers share a
// cache line.
const wordStride = 8

// unreadable is announced instead of memory that the peer cannot access.
var unreadable = regcache.Memory{Remote: fabric.RemoteKey{Addr: wire.NoWord, Key: wire.NoWord}}

// prepareRTS makes the first message of a send an RTS. It names the protocol to the receiver:
// RendezvousCopy by the absence of readable memory, and RendezvousShared by a shared word. marks
// are set if the message is to be measured.
func (x *sends) prepareRTS(r *Request, p protocols.Protocol, marks uint64) error {
	if err := x.expose(r, p); err != nil {
		return err
	}
	word := wire.NoWord
	if p == protocols.RendezvousShared && r.exposed != unreadable {
		if word = x.reserveWord(r); word == wire.NoWord {
			marks = 0 // it would be measured as a read
		}
	}
	v := wire.Envelope{Kind: wire.RTS, Context: r.route.Context, Match: r.route.Match, Epoch: r.epoch}
	r.transfer.elapsed = cost.Elapsed{Marks: marks}
	r.transfer.elapsed.Began = r.transfer.elapsed.Begin(x.links.now)
	o := &r.out
	o.body, o.remaining, o.marks = nil, nil, 0
	o.packed.clear()
	o.header, o.length = wire.Header(v, uint64(r.size())|marks, r.exposed.Remote.Addr, r.exposed.Remote.Key, r.id(), word)
	return nil
}

// expose makes the send buffer readable for the peer, unless the payload is to be copied. If it
// cannot be registered the RTS says so, and the receiver requests the payload in pieces.
func (x *sends) expose(r *Request, p protocols.Protocol) (err error) {
	way := x.links.peer(r.route.Peer).path
	if r.data != nil || p == protocols.RendezvousCopy {
		r.exposed = unreadable
		return nil
	}
	if len(r.buf) == 0 || !way.caps.Read {
		return nil
	}
	r.exposed, err = way.acquire(r.buf)
	if x.links.canCopyInstead(err) {
		r.exposed, err = unreadable, nil
	}
	return err
}

// reserveWord reserves a shared word, so that the receiver of a large message can ask for an
// assist. It returns the index of the word, or wire.NoWord if an assist is not worth it or no word
// is free.
func (x *sends) reserveWord(r *Request) uint64 {
	if x.links.copier == nil || len(r.buf) < protocols.MinShared {
		return wire.NoWord
	}
	p := x.links.peer(r.route.Peer)
	if p.sendWords == nil {
		p.sendWords = x.links.copier.Words(int(r.route.Peer), false)
	}
	i := bits.TrailingZeros64(^p.usedWords)
	if i*wordStride >= len(p.sendWords) {
		return wire.NoWord
	}
	p.usedWords |= 1 << i
	r.word = i
	atomic.StoreUint64(&p.sendWords[i*wordStride], 0)
	return uint64(i)
}

// startRendezvous starts to fetch the payload of an RTS for the matched receive r. arrived says
// that the RTS has arrived just now.
func (x *receives) startRendezvous(r *Request, peer int32, v wire.Envelope, w [5]uint64, arrived bool) {
	if r.flags&rtrSent != 0 {
		r.releaseRTR()
	}
	t := &r.transfer
	t.peer, t.peerID, t.key = peer, w[3], fabric.RemoteKey{Addr: w[1], Key: w[2]}
	t.total = int(w[0] &^ cost.AllMarks)
	t.elapsed = cost.Elapsed{Marks: w[0] & cost.AllMarks}
	if arrived {
		t.elapsed.Began = t.elapsed.Begin(x.links.now)
	}
	t.bytes = min(t.total, r.size())
	t.claims, t.assisted, t.offset, t.local = nil, -1, 0, regcache.Memory{}
	t.state = transferReading
	r.route.Peer = peer
	r.status = Status{Source: v.Rank, Tag: v.Tag, Bytes: t.bytes}
	if t.bytes == 0 {
		x.finishRead(r, nil)
		return
	}
	if err := x.links.connect(peer); err != nil {
		x.finishTransfer(r, err)
		return
	}
	p := x.links.peer(peer)
	if r.data != nil || !p.path.caps.Read || p.noRemoteAccess || t.key == unreadable.Remote {
		x.requestData(t)
		return
	}
	var err error
	t.local, err = p.path.acquire(r.buf[:t.bytes])
	switch {
	case x.links.canCopyInstead(err):
		x.requestData(t)
		return
	case err != nil:
		x.finishRead(r, err)
		return
	}
	if w[4] != wire.NoWord {
		x.requestAssist(t, w[4])
	}
	if p.pusher == nil || t.claims != nil {
		x.push(t)
		return
	}
	// With a pusher the read starts immediately and under the lock. It does not occupy this
	// processor. The payload may have been pushed together with the RTS, and then the next Poll
	// would drop it.
	x.rec.Configured.Begun()
	finished, err := x.endpoint(t).Read(r.buf[:t.bytes], t.local.Local, t.key, r.id())
	x.readReturned(t, finished, err)
	x.returned(finished, err)
}
