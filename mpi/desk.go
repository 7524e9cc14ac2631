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

// digest is of the groups and the tag.
type digest [sha256.Size]byte

// about makes the digest. The lengths before the parts keep them apart.
func about(tag string, groups ...[]int32) digest {
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

// foundingContext is that of these messages.
const foundingContext = foundingID << 1

// maxMail bounds a message with its digest: the largest is the ids of all communicators that a process may make.
const maxMail = len(digest{}) + maxIDs/8 + 64

// desk holds messages until their readers come. Any goroutine may use it.
type desk struct {
	e *proto.Engine

	mu      sync.Mutex
	changed sync.Cond
	mail    map[slot][][]byte
	seats   map[digest]bool // taken: one goroutine at a time is busy with a matter
	taking  bool            // somebody takes in what comes
	lefts   int             // processes that had left when last one did; of who takes
}

// slot is where the messages of one process about one matter wait, in the order in which they were sent.
type slot struct {
	about digest
	from  int32
}

func (d *desk) init(e *proto.Engine) {
	d.e = e
	d.changed.L = &d.mu
	d.mail = map[slot][][]byte{}
	d.seats = map[digest]bool{}
}

// sit waits until no other goroutine of this process is busy with the same matter.
func (d *desk) sit(a digest) {
	d.mu.Lock()
	for d.seats[a] {
		d.changed.Wait()
	}
	d.seats[a] = true
	d.mu.Unlock()
}

func (d *desk) rise(a digest) {
	d.mu.Lock()
	delete(d.seats, a)
	d.changed.Broadcast()
	d.mu.Unlock()
}

// read waits for the next message in a slot. It fails once any of the processes concerned has left the job: another that
// noticed that first may have given up. The operation op is shown meanwhile.
func (d *desk) read(op perf.Op, s slot, all []int32) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if q := d.mail[s]; len(q) > 1 {
			d.mail[s] = q[1:]
			return q[0], nil
		} else if len(q) == 1 {
			delete(d.mail, s)
			return q[0], nil
		}
		if err := d.e.FinalizedPeer(foundingContext, all); err != nil {
			return nil, err
		}
		if d.taking {
			d.changed.Wait()
			continue
		}
		if err := d.take(op); err != nil {
			return nil, err
		}
	}
}

// take waits for a message, whatever it is about, or until a process leaves. The caller holds mu, which is free while it
// waits; what has come changes hands with mu held, so that it is always here or there.
func (d *desk) take(op perf.Op) error {
	d.taking = true
	d.mu.Unlock()
	lefts, err := d.e.WaitMessageOrExit(op, foundingContext, d.lefts)
	d.mu.Lock()
	d.taking, d.lefts = false, lefts
	d.changed.Broadcast()
	if err != nil {
		return err
	}
	from := proto.Route{Context: foundingContext, Match: proto.Match{Rank: AnySource, Tag: int32(AnyTag)}}
	st, ok, err := d.e.Probe(from, false)
	if err != nil || !ok {
		return err
	}
	b := make([]byte, maxMail)
	if st, err = d.e.Recv(from, b); err != nil {
		return err
	}
	if st.Bytes < len(digest{}) {
		return fmt.Errorf("process %d sent %d bytes that are no message about a communicator", st.Source, st.Bytes)
	}
	s := slot{digest(b), st.Source}
	d.mail[s] = append(d.mail[s], b[len(digest{}):st.Bytes])
	return nil
}

// founding is one matter: processes that make a communicator.
type founding struct {
	d     *desk
	about digest
	peers []int32 // all of them, in an order that is the same everywhere
	rank  int     // of this one among them
	as    perf.Op // what its messages are shown as
	self  int32   // and its number
}

func (f *founding) send(rank int, b []byte) (proto.Handle, error) {
	to := proto.Route{Context: foundingContext, Peer: f.peers[rank], Match: proto.Match{Rank: f.self}, Op: f.as}
	return f.d.e.Isend(to, append(slices.Clone(f.about[:]), b...), proto.Standard)
}

var errMail = errors.New("a message about a communicator has the wrong length: do all processes run the same version?")

// combine reduces src of all into dst of each. In every step what was combined so far goes twice as far round; so values
// may enter twice, and the operation has to allow for that.
func (f *founding) combine(dst, src []byte, kernel datatype.Func) error {
	copy(dst, src)
	n := len(f.peers)
	for step := 1; step < n; step *= 2 {
		h, err := f.send((f.rank+step)%n, dst)
		if err != nil {
			return err
		}
		got, err := f.d.read(f.as, slot{f.about, f.peers[(f.rank+n-step)%n]}, f.peers)
		if err != nil {
			return err
		}
		if _, err := f.d.e.Wait(h); err != nil {
			return err
		}
		if len(got) != len(dst) {
			return errMail
		}
		kernel(dst, dst, got)
	}
	return nil
}

// found agrees on a context for a communicator that is being made, and opens it. From then on all
// its processes count on each other.
func (c *Comm) found(call perf.Op, a digest) error {
	p, op := c.p, call.String()
	defer p.called(call)()
	f := &founding{d: &p.desk, about: a, peers: c.group.peers, rank: int(c.group.rank), self: int32(p.place.Rank),
		as: call.Within()}
	p.desk.sit(a)
	defer p.desk.rise(a)
	m := c.meet(call)
	m.founding = f
	err := c.below(op, p.e.PeerError(c.group.peers))
	if err == nil {
		err = m.agree(nil)
	}
	var ctx uint32
	if err == nil {
		ctx, err = m.newContext(true)
	}
	if err != nil {
		return err
	}
	c.open(ctx)
	return nil
}
