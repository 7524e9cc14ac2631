package core

import (
	"math"

	"github.com/ibrun/ibrun/mpi/internal/core/internal/checking"
	"github.com/ibrun/ibrun/perf"
)

// Dup creates a communicator of the same processes in the same order, with its own message context.
func Dup(c *Comm) (*Comm, error) { return dup(c, perf.Dup, nil) }

// DupWithInfo is Dup with hints for the new communicator, as in SetInfo.
func DupWithInfo(c *Comm, info *Info) (*Comm, error) {
	h := newHints().withInfo(info, railsOf(c))
	return dup(c, perf.DupWithInfo, &h)
}

// Idup starts a Dup.
func Idup(c *Comm) (*Comm, Request, error) { return idup(c, perf.Idup, nil) }

// IdupWithInfo starts a DupWithInfo, as Idup starts a Dup.
func IdupWithInfo(c *Comm, info *Info) (*Comm, Request, error) {
	h := newHints().withInfo(info, railsOf(c))
	return idup(c, perf.IdupWithInfo, &h)
}

func dup(c *Comm, call perf.Op, h *hints) (*Comm, error) {
	a, err := begin(c, call, c.checkUsable(call.String()))
	if err != nil {
		return nil, err
	}
	defer a.end()
	d, failed := a.newDuplicate()
	if err := a.activateDup(d, h, failed); err != nil {
		return nil, err
	}
	return d, nil
}

func idup(c *Comm, call perf.Op, h *hints) (*Comm, Request, error) {
	op := call.String()
	if err := c.checkUsable(op); err != nil {
		return nil, Request{}, err
	}
	defer c.proc.recording.call(call)()
	// The number counts also if a callback fails below, because the other ranks count this Idup as
	// well.
	turn := c.coll.idupSeq.Add(1)
	// The copy callbacks run before Idup returns, in the goroutine of the program. The agreement
	// runs beside it: it waits for other ranks.
	m := newAgreement(c, call)
	d, failed := m.newDuplicate()
	m.idupSeq, m.idup = turn, c.coll.main.beside(int32(turn&math.MaxInt32|1<<30), m.recordAs)
	c.coll.started.add(m.idup.tag, perf.Idup)
	r := Request{c.engine.Requests().StartGrequest()}
	where := ""
	if c.checks {
		c.engine.Recording().Called(call)
		where = callPosition()
	}
	c.coll.idups.Go(func() {
		if c.checks {
			if err := c.coll.compareCall(m.idup, &checking.Call{Call: call, Where: where}, failed); err != nil {
				c.engine.Requests().CompleteGrequest(r.h, c.joinError(op, err, d.attrs.Drop(c)))
				return
			}
		}
		c.engine.Requests().CompleteGrequest(r.h, m.activateDup(d, h, failed))
	})
	if failed != nil {
		// The goroutine still reports the failure to the other ranks.
		return nil, Request{}, c.joinError(op, failed, c.engine.Requests().Abandon(r.h))
	}
	return d, r, nil
}

// newDuplicate creates a duplicate that cannot be used yet, and runs the copy callbacks for it. If
// one fails, the duplicate has no attributes.
func (a *agreement) newDuplicate() (*Comm, error) {
	c := a.comm
	d := newChild(c, c.peers, int(c.rank))
	// The two groups of an intercommunicator are those of c, in the same order.
	d.localGroup, d.coll.main.peers, d.coll.main.rank = c.localGroup, c.coll.main.peers, c.coll.main.rank
	d.topology = c.topology
	// A callback must not free the communicator whose attributes are being copied.
	c.copying.Add(1)
	defer c.copying.Add(-1)
	return d, c.wrapError(a.op, c.attrs.Copy(&d.attrs))
}

// activateDup makes a duplicate usable, with hints unless h is nil, if no rank has failed.
func (a *agreement) activateDup(d *Comm, h *hints, failed error) error {
	err := a.agreeSuccess(failed)
	if err == nil && h != nil {
		*h, err = a.agreeHints(*h)
	}
	if err == nil {
		var ctx uint32
		if ctx, err = a.allocContextID(true); err == nil {
			d.activateWithHints(ctx, h)
			return nil
		}
	}
	// The user has not seen the duplicate, so the callbacks get the original communicator.
	return a.comm.joinError(a.op, err, d.attrs.Drop(a.comm))
}
