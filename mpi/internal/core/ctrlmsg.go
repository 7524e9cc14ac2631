package core

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ibrun/ibrun/mpi/internal/core/internal/contextids"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/mpi/internal/reduction"
	"github.com/ibrun/ibrun/perf"
)

// Processes that create a communicator from a group have no communicator for their messages yet. These control messages use
// a context that all processes know. Each begins with a creationID: a digest of the groups and the tag. Several creations
// may be in progress concurrently. A goroutine that waits for a message of its own receives whatever arrives, and queues
// messages of other creations for their readers. The id keeps creations apart.

// creationID identifies the creation of a communicator: it is the hash of the groups and the tag.
type creationID [sha256.Size]byte

// newCreationID hashes the tag and the groups, each preceded by its length, so that different lists cannot give the
// same bytes.
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

// groupCreateContext is the context of these control messages.
const groupCreateContext = groupCreateID << 1

// maxCtrlBytes is the maximum length of a control message with its creationID. The longest payload is the set of all
// context ids.
const maxCtrlBytes = len(creationID{}) + 8*contextids.Words + 64

// ctrlQueue receives control messages and queues them until they are read. Any goroutine may use it.
type ctrlQueue struct {
	engine *proto.Engine

	mu         sync.Mutex
	changed    sync.Cond
	messages   map[sender][][]byte
	active     map[creationID]bool // creations on which a goroutine works
	receiving  bool                // a goroutine is in recvNext
	departures int                 // last result of WaitMessageOrExit; used only by the goroutine in recvNext
}

// sender identifies a queue: the messages of one process for one creation, in the order in which they were sent.
type sender struct {
	creation creationID
	process  int32
}

func (q *ctrlQueue) init(e *proto.Engine) {
	q.engine = e
	q.changed.L = &q.mu
	q.messages = map[sender][][]byte{}
	q.active = map[creationID]bool{}
}

// begin blocks until no other goroutine of this process works on the same creation.
func (q *ctrlQueue) begin(a creationID) {
	q.mu.Lock()
	for q.active[a] {
		q.changed.Wait()
	}
	q.active[a] = true
	q.mu.Unlock()
}

// end lets the next goroutine work on this creation.
func (q *ctrlQueue) end(a creationID) {
	q.mu.Lock()
	delete(q.active, a)
	q.changed.Broadcast()
	q.mu.Unlock()
}

// recv blocks until the next message from a sender has arrived and returns it. It fails when any of the processes in
// all has left the job, because another process that noticed may have given up. op is recorded while it waits.
func (q *ctrlQueue) recv(op perf.Op, s sender, all []int32) ([]byte, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if pending := q.messages[s]; len(pending) > 1 {
			q.messages[s] = pending[1:]
			return pending[0], nil
		} else if len(pending) == 1 {
			delete(q.messages, s)
			return pending[0], nil
		}
		if err := q.engine.FinalizedPeer(groupCreateContext, all); err != nil {
			return nil, err
		}
		if q.receiving {
			q.engine.Watch(groupCreateContext, s.process) // the goroutine that receives waits for another process
			q.changed.Wait()
			continue
		}
		if err := q.recvNext(op, s.process); err != nil {
			return nil, err
		}
	}
}

// recvNext receives one control message of any creation, or returns when a process leaves. One from process is awaited.
// The caller must hold mu, which is released during the wait. A received message is queued under mu, so it is never
// in neither place.
func (q *ctrlQueue) recvNext(op perf.Op, process int32) error {
	q.receiving = true
	q.mu.Unlock()
	departures, err := q.engine.WaitMessageOrExit(op, groupCreateContext, process, q.departures)
	q.mu.Lock()
	q.receiving, q.departures = false, departures
	q.changed.Broadcast()
	if err != nil {
		return err
	}
	from := proto.Route{Context: groupCreateContext, Match: proto.Match{Rank: AnySource, Tag: int32(AnyTag)}}
	st, ok, err := q.engine.Probe(from, false)
	if err != nil || !ok {
		return err
	}
	b := make([]byte, maxCtrlBytes)
	if st, err = q.engine.Recv(from, b); err != nil {
		return err
	}
	if st.Bytes < len(creationID{}) {
		return fmt.Errorf("process %d sent an invalid control message of %d bytes", st.Source, st.Bytes)
	}
	s := sender{creationID(b), st.Source}
	q.messages[s] = append(q.messages[s], b[len(creationID{}):st.Bytes])
	return nil
}

// groupCreation is the creation of one communicator from groups.
type groupCreation struct {
	queue *ctrlQueue
	id    creationID
	peers []int32 // all processes that take part, in an order that is the same in all of them
	rank  int     // index of this process in peers
	self  int32   // number of this process
	// recordAs is recorded for its messages.
	recordAs perf.Op
}

func (f *groupCreation) send(rank int, b []byte) (proto.Handle, error) {
	to := proto.Route{Context: groupCreateContext, Peer: f.peers[rank], Match: proto.Match{Rank: f.self}, Op: f.recordAs}
	return f.queue.engine.Isend(to, append(slices.Clone(f.id[:]), b...), proto.Standard)
}

var errCtrlLength = errors.New("a control message has the wrong length: check that all processes run the same version")

// allreduce combines src of all processes into dst of each. In step k, each process sends what it has combined so far
// to the process 2^k ranks above. A value may enter twice, so the operation must be idempotent.
func (f *groupCreation) allreduce(dst, src []byte, kernel reduction.Func) error {
	copy(dst, src)
	n := len(f.peers)
	for step := 1; step < n; step *= 2 {
		h, err := f.send((f.rank+step)%n, dst)
		if err != nil {
			return err
		}
		got, err := f.queue.recv(f.recordAs, sender{f.id, f.peers[(f.rank+n-step)%n]}, f.peers)
		if err != nil {
			return err
		}
		if _, err := f.queue.engine.Wait(h); err != nil {
			return err
		}
		if len(got) == 0 {
			return errAbandoned
		}
		if len(got) != len(dst) {
			return errCtrlLength
		}
		kernel(dst, dst, got)
	}
	return nil
}

// createFromGroup agrees on a context for the communicator, which is being created, activates it,
// and returns it. From then on all its processes need each other: the loss of one is an error of
// the others.
func (a *agreement) createFromGroup(id creationID, info *Info) (*Comm, error) {
	c, p := a.comm, a.comm.proc
	defer p.recording.call(a.call)()
	all := &c.coll.main
	a.creation = &groupCreation{queue: &p.ctrl, id: id, peers: all.peers, rank: int(all.rank), self: int32(p.boot.Rank),
		recordAs: a.recordAs}
	p.ctrl.begin(id)
	defer p.ctrl.end(id)
	err := c.wrapError(a.op, p.engine.PeerError(groupCreateContext, all.peers))
	h := newHints().withInfo(info, c.rails())
	if err == nil { // this agreement also shows that all processes are about to call allocContextID
		h, err = a.agreeHints(h)
	}
	var ctx uint32
	if err == nil {
		ctx, err = a.allocContextID(true)
	}
	if err != nil {
		if errors.Is(err, proto.ErrFailed) {
			a.creation.abandon()
		}
		return nil, err
	}
	c.activateWithHints(ctx, &h)
	return c, nil
}

// errAbandoned wraps proto.ErrFailed, so that the processes that wait for this one learn of it as well.
var errAbandoned = fmt.Errorf("%w: another process could not create the communicator", proto.ErrFailed)

// abandon notifies the processes that receive from this one in allreduce that it has given up, because a process is lost or has
// left. They may not wait for that process themselves. The message has no payload. It stays valid for later attempts with the
// same groups and tag, which cannot succeed either. Errors of sending are ignored: they concern processes that have left.
func (f *groupCreation) abandon() {
	n := len(f.peers)
	for step := 1; step < n; step *= 2 {
		if h, err := f.send((f.rank+step)%n, nil); err == nil {
			_ = f.queue.engine.Requests().Free(h)
		}
	}
}
