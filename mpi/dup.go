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
	h := newHints().withInfo(info, c.rails())
	return c.dup(perf.DupWithInfo, &h)
}

// Idup begins Dup. The communicator can be used once the request has completed; the copy callbacks have run when Idup
// returns. The communicator and the request are nothing if a callback fails here; if one fails elsewhere, the request
// completes with an error. Other collectives of c, also more of Idup, may follow at once. MPI-5.0 §7.4.2.
func (c *Comm) Idup() (*Comm, Request, error) { return c.idup(perf.Idup, nil) }

// IdupWithInfo begins DupWithInfo, as Idup begins Dup. The info may be changed when it has returned. MPI-5.0 §7.4.2.
func (c *Comm) IdupWithInfo(info *Info) (*Comm, Request, error) {
	h := newHints().withInfo(info, c.rails())
	return c.idup(perf.IdupWithInfo, &h)
}

func (c *Comm) dup(call perf.Op, h *hints) (*Comm, error) {
	op := call.String()
	if err := c.checkUsable(op); err != nil {
		return nil, err
	}
	defer c.proc.recordCall(call)()
	d, failed := c.newDuplicate(op)
	if err := c.newAgreement(call).activateDup(d, h, failed); err != nil {
		return nil, err
	}
	return d, nil
}

func (c *Comm) idup(call perf.Op, h *hints) (*Comm, Request, error) {
	op := call.String()
	if err := c.checkUsable(op); err != nil {
		return nil, Request{}, err
	}
	defer c.proc.recordCall(call)()
	turn := c.idupSeq.Add(1)
	d, failed := c.newDuplicate(op)
	m := c.newAgreement(call)
	m.idupSeq, m.idup = turn, c.newIdupState(turn, m.op)
	r := Request{c.engine.StartGrequest()}
	c.idups.Go(func() { c.engine.CompleteGrequest(r.h, m.activateDup(d, h, failed)) })
	if failed != nil {
		// The others are told nevertheless.
		return nil, Request{}, c.joinError(op, failed, c.engine.Free(r.h))
	}
	return d, r, nil
}

// newIdupState is the way of a meeting aside: the collectives' messages, by a tag of its own.
func (c *Comm) newIdupState(turn uint32, as perf.Op) *collState {
	g := &collState{tag: int32(turn&math.MaxInt32 | 1<<30), op: as}
	g.init(c, c.coll.peers, c.coll.rank)
	return g
}

// newDuplicate makes a duplicate that cannot be used yet, and runs the copy callbacks for it. It has no attributes if one
// fails.
func (c *Comm) newDuplicate(op string) (*Comm, error) {
	d := c.newChild(c.peers, int(c.rank))
	d.localGroup, d.coll.peers, d.coll.rank = c.localGroup, c.coll.peers, c.coll.rank
	d.graph = c.graph
	c.copying.Add(1)
	defer c.copying.Add(-1)
	return d, c.wrapError(op, c.attrs.Copy(&d.attrs))
}

// activateDup makes a duplicate usable, with hints unless h is nil, if nothing failed at any rank.
func (m *agreement) activateDup(d *Comm, h *hints, failed error) error {
	err := m.agreeSuccess(failed)
	if err == nil && h != nil {
		*h, err = m.agreeHints(*h)
	}
	if err == nil {
		var ctx uint32
		if ctx, err = m.allocContextID(true); err == nil {
			d.activateWithHints(ctx, h)
			return nil
		}
	}
	// Nobody has seen it: its attributes go as those of the original.
	return m.comm.joinError(m.call, err, d.attrs.Drop(m.comm))
}
