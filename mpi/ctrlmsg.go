package mpi

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// Processes that make a communicator from a group have none yet by which to talk. Their messages travel in a context that
// all processes know, and begin with a digest of what they are about: groups and tag. Several may be under way at once
// about different things, so whoever waits for one takes in what comes and puts it on the desk for its reader. Processes
// never take one another's for their own: a digest stands for one thing.

// creationID is of the groups and the tag.
type creationID [sha256.Size]byte

// newCreationID makes the digest. The lengths before the parts keep them apart.
func newCreationID(tag string, groups ...[]int32) creationID {
	b := binary.AppendUvarint(nil, uint64(len(tag)))
	b = append(b, tag...)
	for _, g := range groups {
		b = binary.AppendUvarint(b, uint64(len(g)))
		for _, n := range g {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	return sha256.Sum256(b)
}

// groupCreateContext is that of these messages.
const groupCreateContext = groupCreateID << 1

// maxCtrlBytes bounds a message with its digest: the largest is the ids of all communicators that a process may make.
const maxCtrlBytes = len(creationID{}) + maxContextIDs/8 + 64

// ctrlQueue holds messages until their readers come. Any goroutine may use it.
type ctrlQueue struct {
	engine *proto.Engine

	mu         sync.Mutex
	changed    sync.Cond
	messages   map[sender][][]byte
	active     map[creationID]bool // taken: one goroutine at a time is busy with a matter
	receiving  bool                // somebody takes in what comes
	departures int                 // processes that had left when last one did; of who takes
}

// sender is where the messages of one process about one matter wait, in the order in which they were sent.
type sender struct {
	creation creationID
	process  int32
}

func (d *ctrlQueue) init(e *proto.Engine) {
	d.engine = e
	d.changed.L = &d.mu
	d.messages = map[sender][][]byte{}
	d.active = map[creationID]bool{}
}

// begin waits until no other goroutine of this process is busy with the same matter.
func (d *ctrlQueue) begin(a creationID) {
	d.mu.Lock()
	for d.active[a] {
		d.changed.Wait()
	}
	d.active[a] = true
	d.mu.Unlock()
}

func (d *ctrlQueue) end(a creationID) {
	d.mu.Lock()
	delete(d.active, a)
	d.changed.Broadcast()
	d.mu.Unlock()
}

// recv waits for the next message in a slot. It fails once any of the processes concerned has left the job: another that
// noticed that first may have given up. The operation op is shown meanwhile.
func (d *ctrlQueue) recv(op perf.Op, s sender, all []int32) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if q := d.messages[s]; len(q) > 1 {
			d.messages[s] = q[1:]
			return q[0], nil
		} else if len(q) == 1 {
			delete(d.messages, s)
			return q[0], nil
		}
		if err := d.engine.FinalizedPeer(groupCreateContext, all); err != nil {
			return nil, err
		}
		if d.receiving {
			d.changed.Wait()
			continue
		}
		if err := d.recvNext(op); err != nil {
			return nil, err
		}
	}
}

// recvNext waits for a message, whatever it is about, or until a process leaves. The caller holds mu, which is free while it
// waits; what has come changes hands with mu held, so that it is always here or there.
func (d *ctrlQueue) recvNext(op perf.Op) error {
	d.receiving = true
	d.mu.Unlock()
	lefts, err := d.engine.WaitMessageOrExit(op, groupCreateContext, d.departures)
	d.mu.Lock()
	d.receiving, d.departures = false, lefts
	d.changed.Broadcast()
	if err != nil {
		return err
	}
	from := proto.Route{Context: groupCreateContext, Match: proto.Match{Rank: AnySource, Tag: int32(AnyTag)}}
	st, ok, err := d.engine.Probe(from, false)
	if err != nil || !ok {
		return err
	}
	b := make([]byte, maxCtrlBytes)
	if st, err = d.engine.Recv(from, b); err != nil {
		return err
	}
	if st.Bytes < len(creationID{}) {
		return fmt.Errorf("process %d sent %d bytes that are no message about a communicator", st.Source, st.Bytes)
	}
	s := sender{creationID(b), st.Source}
	d.messages[s] = append(d.messages[s], b[len(creationID{}):st.Bytes])
	return nil
}

// groupCreation is one matter: processes that make a communicator.
type groupCreation struct {
	queue *ctrlQueue
	id    creationID
	peers []int32 // all of them, in an order that is the same everywhere
	rank  int     // of this one among them
	op    perf.Op // what its messages are shown as
	self  int32   // and its number
}

func (f *groupCreation) send(rank int, b []byte) (proto.Handle, error) {
	to := proto.Route{Context: groupCreateContext, Peer: f.peers[rank], Match: proto.Match{Rank: f.self}, Op: f.op}
	return f.queue.engine.Isend(to, append(slices.Clone(f.id[:]), b...), proto.Standard)
}

var errCtrlLength = errors.New("a message about a communicator has the wrong length: do all processes run the same version?")

// allreduce reduces src of all into dst of each. In every step what was combined so far goes twice as far round; so values
// may enter twice, and the operation has to allow for that.
func (f *groupCreation) allreduce(dst, src []byte, kernel datatype.Func) error {
	copy(dst, src)
	n := len(f.peers)
	for step := 1; step < n; step *= 2 {
		h, err := f.send((f.rank+step)%n, dst)
		if err != nil {
			return err
		}
		got, err := f.queue.recv(f.op, sender{f.id, f.peers[(f.rank+n-step)%n]}, f.peers)
		if err != nil {
			return err
		}
		if _, err := f.queue.engine.Wait(h); err != nil {
			return err
		}
		if len(got) != len(dst) {
			return errCtrlLength
		}
		kernel(dst, dst, got)
	}
	return nil
}

// createFromGroup agrees on a context for a communicator that is being made, and opens it. From then on all
// its processes count on each other.
func (c *Comm) createFromGroup(call perf.Op, a creationID) error {
	p, op := c.proc, call.String()
	defer p.recordCall(call)()
	f := &groupCreation{queue: &p.ctrl, id: a, peers: c.coll.peers, rank: int(c.coll.rank), self: int32(p.boot.Rank),
		op: call.Within()}
	p.ctrl.begin(a)
	defer p.ctrl.end(a)
	m := c.newAgreement(call)
	m.creation = f
	err := c.wrapError(op, p.engine.PeerError(c.coll.peers))
	if err == nil {
		err = m.agreeSuccess(nil)
	}
	var ctx uint32
	if err == nil {
		ctx, err = m.allocContextID(true)
	}
	if err != nil {
		return err
	}
	c.activate(ctx)
	return nil
}
