package core

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/core/internal/creation"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// agreement is the exchange by which the ranks of a communicator agree, for instance on a context
// id, while they create or free a communicator.
type agreement struct {
	comm *Comm
	op   string
	// call is the call whose ranks agree, and recordAs what is recorded for its messages.
	call, recordAs perf.Op
	began          uint64 // when the recording of the call has begun; see begin
	// idup carries the messages of an Idup, whose agreement runs beside the collectives of the
	// communicator; nil for the others. idupSeq numbers the Idups from 1, and is the same at all
	// ranks.
	idup    *collState
	idupSeq uint32
	// creation carries the messages if the communicator is being created from groups; nil
	// otherwise.
	creation *creation.Exchange
}

// newAgreement returns an agreement among the ranks of c, as part of a call.
func newAgreement(c *Comm, call perf.Op) *agreement {
	return &agreement{comm: c, op: call.String(), call: call, recordAs: call.Within()}
}

// begin begins a call in which the ranks of c agree: it is recorded until end, and compared if
// calls are checked. unusable is why c cannot be used for the call, which the caller has checked;
// begin returns it, unless it is nil.
func begin(c *Comm, call perf.Op, unusable error) (*agreement, error) {
	if unusable != nil {
		return nil, unusable
	}
	a := newAgreement(c, call)
	a.began = c.engine.Recording().BeginOp(call, 0)
	// After BeginOp, so that the messages of the comparison are shown as parts of the call.
	if err := c.coll.checkCall(call); err != nil {
		a.end()
		return nil, err
	}
	return a, nil
}

// end ends the recording of the call.
func (a *agreement) end() { a.comm.engine.Recording().EndOp(a.call, 0, a.began) }

// allreduce combines src of all ranks into dst. The operation must be idempotent: a rank's value
// may enter twice.
func (a *agreement) allreduce(dst, src []byte, k datatype.Kind, o Predefined) error {
	// The third result is always true: the callers pass operations that are defined on their kinds.
	f, commutative, _ := o.kernel(Elements{kind: k})
	switch {
	case a.creation != nil:
		return a.comm.wrapError(a.op, a.creation.Allreduce(dst, src, f))
	case a.idup == nil:
		return a.comm.coll.Call(&Collective{Kind: perf.Allreduce, as: a.recordAs, Dst: dst, Src: src,
			Elements: Elements{kind: k}, Op: o})
	}
	// Collectives.Call makes this test. The messages of an Idup do not pass through it.
	if failed := a.comm.coll.main.failed.Load(); failed != nil {
		return a.comm.wrapError(a.op, *failed)
	}
	a.idup.scratch.used = 0
	op := coll.Operation{Kernel: f, ElemSize: k.Size(), Commutative: commutative}
	return a.comm.wrapError(a.op, coll.Allreduce(a.idup, dst, src, &op))
}

// andBits returns the bits that all ranks set.
func (a *agreement) andBits(bits uint8) (uint8, error) {
	mine, all := [1]uint8{bits}, [1]uint8{}
	err := a.allreduce(all[:], mine[:], datatype.Uint8, Band)
	return all[0], err
}

// agreeSuccess blocks until all ranks have called it. It returns this rank's error, or errOtherRank
// if only another rank has one.
func (a *agreement) agreeSuccess(mine error) error {
	fine := uint8(1)
	if mine != nil {
		fine = 0
	}
	all, err := a.andBits(fine)
	return a.success(mine, all != 0, err)
}

// success returns the result of an agreement: this rank's error, that of the exchange, or
// errOtherRank unless all ranks are fine.
func (a *agreement) success(mine error, fine bool, err error) error {
	switch {
	// This rank's own error comes first: it says what the program has to mend, and errOtherRank
	// only that some rank has failed.
	case mine != nil:
		return a.comm.joinError(a.op, mine, err)
	case err == nil && !fine:
		return a.comm.newError(a.op, ErrOther, errOtherRank)
	}
	return err
}
