package core

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// When calls are checked, every collective begins with an exchange: each rank sends a description
// of its call to rank 0, which compares them and sends all ranks the result. The exchange is the
// same for all collectives, so different ones meet, and no rank waits for messages that never come.
// A rank that rejects its own arguments takes part as well: its error is an error of all.

// checkTag is the tag of this exchange. The messages of collectives have the tag 0, those of an
// Idup have the bit 30 set, and those of an immediate collective the bit 28.
const checkTag = 1 << 29

// collCall describes a call of a collective. The ranks send it as JSON.
type collCall struct {
	Call perf.Op
	Type datatype.Kind `json:",omitempty"` // of the elements; 0: none
	// Data is the signature of elements that are not numbers, and Name that of their Go type; see
	// Elements.
	Data string `json:",omitempty"`
	Name string `json:",omitempty"`
	Op   string `json:",omitempty"` // the reduction operation
	// Count is the number of elements that must be the same at all ranks; in Gatherv and Scatterv
	// it is that of this rank's block.
	Count int `json:",omitempty"`
	// Root is set with Rooted.
	Root   int  `json:",omitempty"`
	Rooted bool `json:",omitempty"`
	// Counts are the numbers of elements of the ranks' blocks; in Alltoallv, of the blocks for the
	// ranks. They are the same at all ranks, or used at the root only.
	Counts []int `json:",omitempty"`
	// From are the numbers of elements that an Alltoallv expects from the ranks.
	From []int `json:",omitempty"`
	// Parts has the signatures of the blocks if the buffers are views: then all numbers of elements
	// are numbers of bytes.
	Parts *partSignatures `json:",omitempty"`
	// Idups is how many Idups the rank has started on the communicator, since their order counts as
	// well.
	Idups   uint32 `json:",omitempty"`
	Where   string
	Failure *verdict `json:",omitempty"` // the error that the rank has found by itself
}

// is reports whether x is a call, or its immediate form.
func (x *collCall) is(call perf.Op) bool { return x.compared().Blocking() == call }

// compared returns the call as it is compared.
func (x *collCall) compared() perf.Op { return comparedCall(x.Call) }

// comparedCall returns a call as it is compared. An Alltoallw is an Alltoallv of views: some ranks
// may pass these, and others slices.
func comparedCall(call perf.Op) perf.Op {
	switch call {
	case perf.Alltoallw:
		return perf.Alltoallv
	case perf.Ialltoallw:
		return perf.Ialltoallv
	case perf.NeighborAlltoallw:
		return perf.NeighborAlltoallv
	case perf.IneighborAlltoallw:
		return perf.IneighborAlltoallv
	}
	return call
}

// isNeighbor reports whether x is a neighborhood collective.
func (x *collCall) isNeighbor() bool {
	call := x.compared().Blocking()
	return call >= perf.NeighborAllgather && call <= perf.NeighborAlltoallv
}

// verdict is the result of the exchange: an error of all ranks.
type verdict struct {
	Class Class
	Text  string
}

func (v *verdict) Error() string { return v.Text }

// compare compares a call with those of the other ranks. failed is the error that this rank has
// found by itself; compare returns it, or an error if another rank has failed or the calls differ.
func (cs *Collectives) compare(mine *collCall, failed error) error {
	if mine.Call.IsWithin() {
		return failed // the call that it is a part of has been compared
	}
	return cs.compareCall(cs.main.beside(checkTag, mine.Call.Within()), mine, failed)
}

// compareCall is the exchange with the messages of g: those of an Idup have a tag of their own.
func (cs *Collectives) compareCall(g *collState, mine *collCall, failed error) error {
	c, op := cs.comm, mine.Call.String()
	if mine.Where == "" {
		c.engine.Recording().Called(mine.Call)
		mine.Where = callPosition()
	}
	if failed != nil {
		mine.Failure = &verdict{c.proc.classify(failed), failed.Error()}
	}
	if len(g.peers) == 1 {
		return failed
	}
	v, err := g.exchangeCalls(mine)
	switch {
	case failed != nil:
		return c.joinError(op, failed, err)
	case err != nil:
		return c.wrapError(op, err)
	case v != nil:
		return c.newError(op, v.Class, v)
	}
	return nil
}

// checkCall compares a call without arguments if calls are checked.
func (cs *Collectives) checkCall(call perf.Op) error {
	if !cs.comm.checks || atomic.LoadUint64(&cs.main.busy) != 0 || cs.main.failed.Load() != nil {
		return nil
	}
	return cs.compare(&collCall{Call: call, Idups: cs.idupSeq.Load()}, nil)
}

// exchangeCalls sends this rank's call to rank 0 and returns the verdict; nil if all calls agree.
func (g *collState) exchangeCalls(mine *collCall) (*verdict, error) {
	if g.rank != 0 {
		b, err := json.Marshal(mine)
		if err == nil {
			err = g.Send(0, b)
		}
		if err != nil {
			return nil, err
		}
		return receiveJSON[verdict](g, 0)
	}
	calls := []*collCall{mine}
	for rank := 1; rank < len(g.peers); rank++ {
		other, err := receiveJSON[collCall](g, rank)
		if err != nil {
			return nil, err
		}
		calls = append(calls, other)
	}
	v := (&comparison{calls, g.peers}).judge()
	var b []byte
	if v != nil {
		var err error
		if b, err = json.Marshal(v); err != nil {
			return nil, err
		}
	}
	for rank := 1; rank < len(g.peers); rank++ {
		if err := g.Send(rank, b); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// receiveJSON receives a value of any length from a rank; nil if it is empty.
func receiveJSON[T any](g *collState, rank int) (*T, error) {
	from := g.recvRoute(rank)
	st, _, err := g.engine.Probes().Probe(context.Background(), from, true)
	if err != nil || st.Bytes == 0 {
		if err == nil {
			_, err = g.engine.Recv(from, nil)
		}
		return nil, g.check(err)
	}
	b := make([]byte, st.Bytes)
	if _, err := g.engine.Recv(from, b); err != nil {
		return nil, g.check(err)
	}
	v := new(T)
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("rank %d sent an invalid description of its call: %w", rank, err)
	}
	return v, nil
}

// comparison compares the calls that the ranks have made.
type comparison struct {
	calls []*collCall // by rank
	peers []int32     // process by rank
}

// judge compares the calls of all ranks. It returns the first difference, or nil.
func (p *comparison) judge() *verdict {
	calls := p.calls
	for rank, x := range calls {
		if x == nil {
			return &verdict{ErrOther, fmt.Sprintf("rank %d sent no description of its call", rank)}
		}
		if f := x.Failure; f != nil {
			return &verdict{f.Class, fmt.Sprintf("%s failed: %s", p.describe(rank), f.Text)}
		}
	}
	for rank := 1; rank < len(calls); rank++ {
		if class := calls[rank].compare(calls[0]); class != 0 {
			return &verdict{class, p.describe(rank) + " against " + p.describe(0)}
		}
	}
	return p.judgeBlocks()
}

// compare returns the class of the first difference between two calls; 0 if there is none.
func (x *collCall) compare(y *collCall) Class {
	switch {
	case x.compared() != y.compared(), x.Idups != y.Idups:
		return ErrOther
	case x.Root != y.Root:
		return ErrRoot
	case x.Parts != nil, y.Parts != nil: // see judgeBlocks
		return 0
	case x.isNeighbor() && (x.Type == datatype.Byte || y.Type == datatype.Byte): // views, whose elements may be of any kinds
		return 0
	case x.Type != y.Type, x.Data != y.Data && x.Count == y.Count:
		return ErrType
	case x.Op != y.Op:
		return ErrOp
	case x.is(perf.Gatherv), x.is(perf.Scatterv), x.is(perf.Alltoallv): // see judgeBlocks
		return 0
	case x.Count != y.Count, !slices.Equal(x.Counts, y.Counts):
		return ErrCount
	}
	return 0
}

// callBlock is what one rank knows of a block that it sends to another or expects from it.
type callBlock struct {
	call  *collCall
	count int                // elements; bytes if the buffers of the call are views
	sig   datatype.Signature // if the buffers of the call are views
}

// bytes returns the length of the block.
func (b callBlock) bytes() int {
	if b.call.Parts == nil {
		return b.count * b.call.Type.Size()
	}
	return b.count
}

// signature returns the signature of the block.
func (b callBlock) signature() datatype.Signature {
	if b.call.Parts == nil {
		return datatype.OfKind(b.call.Type).Signature().Repeat(int64(b.count))
	}
	return b.sig
}

// own returns the block of a rank itself, in its call x of a collective where each rank has one.
func (x *collCall) own(rank int) callBlock {
	if x.is(perf.Allgatherv) {
		return callBlock{x, x.Counts[rank], x.parts().Own}
	}
	return callBlock{x, x.Count, x.parts().Own}
}

// part returns the block of a rank.
func (x *collCall) part(rank int) callBlock {
	return callBlock{x, x.Counts[rank], signatureAt(x.parts().Counts, rank)}
}

// from returns the block that an Alltoallv expects from a rank.
func (x *collCall) from(rank int) callBlock {
	return callBlock{x, x.From[rank], signatureAt(x.parts().From, rank)}
}

// parts returns the signatures of the blocks, which are zero unless the buffers are views.
func (x *collCall) parts() (p partSignatures) {
	if x.Parts != nil {
		p = *x.Parts
	}
	return p
}

// signatureAt returns the signature of a rank's block. A call without buffers has blocks without
// data.
func signatureAt(sigs []datatype.Signature, rank int) datatype.Signature {
	if rank < len(sigs) {
		return sigs[rank]
	}
	return datatype.Signature{}
}

// judgeBlocks compares the blocks that only two ranks know.
func (p *comparison) judgeBlocks() *verdict {
	calls := p.calls
	n, first := len(calls), calls[0]
	for a, x := range calls {
		for b, y := range calls {
			var v *verdict
			switch {
			case first.is(perf.Alltoallv):
				if len(x.Counts) == n && len(y.From) == n {
					v = p.judgeBlock(a, x.part(b), b, y.from(a))
				}
			case a == b, len(y.Counts) != n, first.is(perf.Allgatherv) && len(x.Counts) != n:
			case (first.is(perf.Gatherv) || first.is(perf.Scatterv)) && b == first.Root, first.is(perf.Allgatherv):
				v = p.judgeBlock(a, x.own(a), b, y.part(a))
			}
			if v != nil {
				return v
			}
		}
	}
	return nil
}

// judgeBlock compares what ranks a and b know of a block.
func (p *comparison) judgeBlock(a int, x callBlock, b int, y callBlock) *verdict {
	views := x.call.Parts != nil || y.call.Parts != nil
	switch {
	case !views && x.count != y.count:
		return &verdict{ErrCount, fmt.Sprintf("%s against %s: %d elements, but the other rank has a count of %d for them",
			p.describe(a), p.describe(b), x.count, y.count)}
	case views && x.bytes() != y.bytes():
		return &verdict{ErrCount, fmt.Sprintf("%s against %s: %d bytes, but the other rank has %d bytes for them",
			p.describe(a), p.describe(b), x.bytes(), y.bytes())}
	case views && x.signature() != y.signature():
		return &verdict{ErrType, fmt.Sprintf("%s against %s: the %d bytes are of other types at the other rank",
			p.describe(a), p.describe(b), x.bytes())}
	}
	return nil
}

// describe returns a call in words: "Allreduce of 11 float64 (sum) at solver/main.go:31 (rank 1)".
func (p *comparison) describe(rank int) string {
	x := p.calls[rank]
	text := x.Call.String()
	if x.Parts != nil {
		text += " of views"
	} else if x.Data != "" && x.Name == "" {
		text += fmt.Sprintf(" of %d bytes of %s (signature %s)", x.Count, mixedName, x.Data)
	} else if name := x.elements(); name != "" {
		switch x.Call.Blocking() {
		case perf.Allgatherv, perf.ReduceScatter, perf.ReduceScatterBlock, perf.Alltoallv:
			text += fmt.Sprintf(" of %s, counts %v,", name, x.Counts)
		default:
			text += fmt.Sprintf(" of %d elements of %s", x.Count, name)
		}
	}
	if x.Op != "" {
		text += " (" + x.Op + ")"
	}
	if x.Rooted {
		text += fmt.Sprintf(" with root %d", x.Root)
	}
	if slices.ContainsFunc(p.calls, func(y *collCall) bool { return y != nil && y.Idups != x.Idups }) {
		text += fmt.Sprintf(" after %d Idup", x.Idups)
	}
	text += fmt.Sprintf(" at %s (rank %d", x.Where, rank)
	if n := p.peers[rank]; int(n) != rank {
		text += fmt.Sprintf(", process %d", n)
	}
	return text + ")"
}

// describeOp returns an operation as it is compared. Functions of the user cannot be compared.
func describeOp(o Op) string {
	switch o := o.(type) {
	case nil:
		return "none"
	case Predefined:
		return o.String()
	case *userOp:
		if o.commutative {
			return "a commutative operation of the program"
		}
		return "an operation of the program"
	}
	return ""
}

// elements returns the name of the elements; empty if there are none.
func (x *collCall) elements() string {
	if x.Type == 0 {
		return x.Name
	}
	return x.Type.String()
}

// newCollCall returns the description of a collective on elements.
func (cs *Collectives) newCollCall(call perf.Op, k Elements, bytes int) *collCall {
	x := &collCall{Call: call, Type: k.kind, Count: bytes / k.Size(), Idups: cs.idupSeq.Load()}
	switch {
	case k.data != nil && k.data.parts != nil:
		x.Parts = k.data.parts
	case k.data != nil:
		x.Name, x.Data = k.data.name, k.signature(bytes)
	}
	return x
}
