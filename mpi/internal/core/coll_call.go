package core

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/perf"
)

// Collective is a call of a collective: which one, and its arguments. It serves the blocking, the
// immediate and the persistent form. coll_kinds.go says what each collective does with its
// arguments, and inter_coll.go what it does on an intercommunicator.
//
// A Collective is made for one call, on the stack of the caller, and the call changes it. What its
// fields point to may be used after the call. The views of the caller and the function of Pairs are
// parameters beside it: as fields they would be allocated for each call.
type Collective struct {
	// Kind is the collective, as the operation of its blocking form.
	Kind perf.Op
	// Dst is what this rank receives, and Src what it sends. Bcast has Dst only.
	Dst, Src []byte
	// To are the counts and displacements of the blocks in Dst, in elements, and From those of the
	// blocks in Src. Without displacements the blocks follow each other. A ReduceScatter has the
	// counts of To.
	To, From coll.Layout
	Elements Elements
	Op       Op // of a reduction
	Root     int

	// as is what a part of another call is recorded as; NoOp: this is a call of the program. On an
	// intercommunicator a part of another call is among the ranks of both groups.
	as    perf.Op
	start Start
	edges *coll.Edges // of a neighborhood collective
	views *packing    // of an immediate or persistent call of views; nil: there are none
}

// Blocks returns the counts and displacements of the blocks of a collective.
func Blocks(counts, displs []int) coll.Layout { return coll.Layout{Counts: counts, Displs: displs} }

// Start says how a collective is called.
type Start uint8

// The ways to call a collective.
const (
	Immediate  Start = iota // the call is an immediate collective
	Persistent              // the call returns a persistent request, which Request.Start starts
	Blocking                // the call is a blocking collective
)

// Name returns the name of the call of a collective, which has the operation kind in its blocking
// form.
func (s Start) Name(kind perf.Op) string {
	switch s {
	case Persistent:
		return kind.String() + "Init"
	case Immediate:
		return immediateForm(kind).String()
	}
	return kind.String()
}

// recorded returns the operation that the call is recorded as.
func (x *Collective) recorded() perf.Op {
	switch {
	case x.as != perf.NoOp:
		return x.as
	case x.start == Blocking:
		return x.Kind
	}
	return immediateForm(x.Kind)
}

// Start starts an immediate collective, or creates the request of a persistent one.
func (cs *Collectives) Start(start Start, x *Collective) (Request, error) {
	x.start = start
	return cs.start(x, nil)
}

// Call makes a blocking collective.
func (cs *Collectives) Call(x *Collective) error {
	x.start = Blocking
	inter := false
	// admit finds errors only in a ReduceScatterBlock and on an intercommunicator. Other calls need not
	// pay for it.
	if x.Kind == perf.ReduceScatterBlock || cs.isInter() {
		var err error
		if inter, err = cs.admit(x, x.Kind.String()); err != nil {
			return err
		}
	}
	call := x.recorded()
	if err := cs.beginCall(call, x.bytes()); err != nil {
		return err
	}
	defer cs.endCall()
	c, g := cs.comm, &cs.main
	var err error
	// The arguments are checked only now, since the operation of the call in progress is kept in g:
	// a second goroutine must not set it.
	if x.Kind != perf.Barrier { // which has no arguments
		err = cs.prepare(x, inter, &g.operation)
	}
	if err != nil {
		err = c.wrapError(call.String(), err)
	}
	// A rank with wrong arguments takes part in the comparison. So the others get an error as well,
	// and do not wait for messages that this rank will not send.
	if c.checks {
		err = cs.compare(cs.describeCall(x, inter), err)
	}
	if err != nil {
		return err
	}
	done := false
	switch {
	case inter:
		if err = cs.runInter(x, g, &g.operation); err != nil {
			g.fail(err) // the ranks may have stopped at different messages, and no rank may wait for another for ever
		}
		done = true
	case g.sharesMemory():
		done, err = g.runShared(x)
	}
	if !done {
		err = run(x, g, &g.operation)
	}
	if err != nil {
		return c.wrapError(call.String(), err)
	}
	return nil
}

// prepare checks the arguments of a call, and changes them as package coll expects them. It sets
// the operation of a reduction, and the root that the next Barrier expects.
func (cs *Collectives) prepare(x *Collective, inter bool, o *coll.Operation) error {
	if inter {
		return cs.args.prepareInter(x, o)
	}
	err := cs.args.prepare(x, o)
	if err == nil && (x.Kind == perf.Bcast || x.Kind == perf.Scatter) {
		cs.main.shm.expectRoot(x.Root)
	}
	return err
}

// admit returns the errors of a call that are found before it begins, of which the other ranks do
// not learn: a collective that is not defined on intercommunicators, and a buffer that cannot be
// divided into equal counts, which it sets. inter reports whether the call exchanges data between
// the groups of an intercommunicator.
func (cs *Collectives) admit(x *Collective, name string) (inter bool, err error) {
	// The counts depend on the number of ranks, so there must be a communicator.
	if x.Kind == perf.ReduceScatterBlock {
		if err := cs.checkUsable(name); err != nil {
			return false, err
		}
		if x.To.Counts, err = cs.args.equalCounts(x.Src, x.Elements); err != nil {
			return false, cs.comm.wrapError(name, err)
		}
	}
	if !cs.isInter() || x.as != perf.NoOp || x.Kind == perf.Barrier {
		return false, nil
	}
	switch {
	case x.isNeighbor() && x.start != Blocking: // fails because there is no topology
		return false, nil
	case x.isNeighbor(), x.Kind == perf.Scan, x.Kind == perf.Exscan:
		return false, cs.comm.newError(name, ErrComm, errInter)
	}
	return true, nil
}
