package mpi

import (
	"math"

	"github.com/ibrun/ibrun/perf"
)

// Dup makes a communicator of the same processes in the same order, with messages of its own, and with the attributes
// that their copy callbacks make. If a callback fails at any rank, then Dup fails at all, with that error where it was.
// It is collective. MPI-5.0 §7.4.2.
func (c *Comm) Dup() (*Comm, error) { return c.dup(perf.Dup, nil) }

// DupWithInfo is Dup with hints for the new communicator, as SetInfo takes them; those of c are not handed on.
// MPI-5.0 §7.4.2.
func (c *Comm) DupWithInfo(info *Info) (*Comm, error) {
	h := newHints().with(info, c.rails())
	return c.dup(perf.DupWithInfo, &h)
}

// Idup begins Dup. The communicator can be used once the request has completed; the copy callbacks have run when Idup
// returns. The communicator and the request are nothing if a callback fails here; if one fails elsewhere, the request
// completes with an error. Other collectives of c, also more of Idup, may follow at once. MPI-5.0 §7.4.2.
func (c *Comm) Idup() (*Comm, Request, error) { return c.idup(perf.Idup, nil) }

// IdupWithInfo begins DupWithInfo, as Idup begins Dup. The info may be changed when it has returned. MPI-5.0 §7.4.2.
func (c *Comm) IdupWithInfo(info *Info) (*Comm, Request, error) {
	h := newHints().with(info, c.rails())
	return c.idup(perf.IdupWithInfo, &h)
}

func (c *Comm) dup(call perf.Op, h *hints) (*Comm, error) {
	op := call.String()
	if err := c.usable(op); err != nil {
		return nil, err
	}
	defer c.p.called(call)()
	d, failed := c.replica(op)
	if err := c.meet(call).found(d, h, failed); err != nil {
		return nil, err
	}
	return d, nil
}

func (c *Comm) idup(call perf.Op, h *hints) (*Comm, Request, error) {
	op := call.String()
	if err := c.usable(op); err != nil {
		return nil, Request{}, err
	}
	defer c.p.called(call)()
	turn := c.turns.Add(1)
	d, failed := c.replica(op)
	m := c.meet(call)
	m.turn, m.aside = turn, c.aisle(turn, m.as)
	r := Request{c.e.StartGrequest()}
	c.aside.Go(func() { c.e.CompleteGrequest(r.h, m.found(d, h, failed)) })
	if failed != nil {
		// The others are told nevertheless.
		return nil, Request{}, c.also(op, failed, c.e.Free(r.h))
	}
	return d, r, nil
}

// aisle is the way of a meeting aside: the collectives' messages, by a tag of its own.
func (c *Comm) aisle(turn uint32, as perf.Op) *group {
	g := &group{tag: int32(turn&math.MaxInt32 | 1<<30), call: as}
	g.init(c, c.group.peers, c.group.rank)
	return g
}

// replica makes a duplicate that cannot be used yet, and runs the copy callbacks for it. It has no attributes if one
// fails.
func (c *Comm) replica(op string) (*Comm, error) {
	d := c.child(c.peers, int(c.rank))
	d.local, d.group.peers, d.group.rank = c.local, c.group.peers, c.group.rank
	d.graph = c.graph
	c.copying.Add(1)
	defer c.copying.Add(-1)
	return d, c.below(op, c.attrs.Copy(&d.attrs))
}

// found makes a duplicate usable, with hints unless h is nil, if nothing failed at any rank.
func (m *meeting) found(d *Comm, h *hints, failed error) error {
	err := m.agree(failed)
	if err == nil && h != nil {
		*h, err = m.hint(*h)
	}
	if err == nil {
		var ctx uint32
		if ctx, err = m.newContext(true); err == nil {
			d.openWith(ctx, h)
			return nil
		}
	}
	// Nobody has seen it: its attributes go as those of the original.
	return m.c.also(m.op, err, d.attrs.Drop(m.c))
}
