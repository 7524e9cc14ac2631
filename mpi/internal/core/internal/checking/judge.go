package checking

import (
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// comparison compares the calls that the ranks have made.
type comparison struct {
	calls   []*Call // by rank; nil: the rank has sent nothing
	peers   []int32 // process by rank
	classes *Classes
}

// Judge compares the calls of all ranks. peers has the process of each rank. It returns the first
// difference, or nil. An error that a rank has found by itself comes before any difference, which
// may only be a consequence of it.
func Judge(calls []*Call, peers []int32, classes *Classes) *Verdict {
	return (&comparison{calls, peers, classes}).judge()
}

func (c *comparison) judge() *Verdict {
	calls := c.calls
	for rank, x := range calls {
		if x == nil {
			return &Verdict{c.classes[Calls], fmt.Sprintf("rank %d sent no description of its call", rank)}
		}
		if f := x.Failure; f != nil {
			return &Verdict{f.Class, fmt.Sprintf("%s failed: %s", c.describe(rank), f.Text)}
		}
	}
	for rank := 1; rank < len(calls); rank++ {
		if d := calls[rank].compare(calls[0]); d != None {
			return &Verdict{c.classes[d], c.describe(rank) + " against " + c.describe(0)}
		}
	}
	return c.judgeBlocks()
}

// block is what one rank knows of a block that it sends to another or expects from it.
type block struct {
	call  *Call
	count int                // elements; bytes if the buffers of the call are views
	sig   datatype.Signature // if the buffers of the call are views
}

// bytes returns the length of the block.
func (b block) bytes() int {
	if b.call.Parts == nil {
		return b.count * b.call.Type.Size()
	}
	return b.count
}

// signature returns the signature of the block.
func (b block) signature() datatype.Signature {
	if b.call.Parts == nil {
		return datatype.OfKind(b.call.Type).Signature().Repeat(int64(b.count))
	}
	return b.sig
}

// own returns the block of a rank itself, in its call x of a collective where each rank has one.
func (x *Call) own(rank int) block {
	if x.is(perf.Allgatherv) {
		return block{x, x.Counts[rank], x.parts().Own}
	}
	return block{x, x.Count, x.parts().Own}
}

// part returns the block of a rank.
func (x *Call) part(rank int) block {
	return block{x, x.Counts[rank], signatureAt(x.parts().Counts, rank)}
}

// from returns the block that an Alltoallv expects from a rank.
func (x *Call) from(rank int) block {
	return block{x, x.From[rank], signatureAt(x.parts().From, rank)}
}

// parts returns the signatures of the blocks, which are zero unless the buffers are views.
func (x *Call) parts() (p Parts) {
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

// judgeBlocks compares the blocks that only two ranks know. Rank a knows what it sends, or what the
// root sends to it, and rank b the same block from the other side. In a Gatherv and a Scatterv b is
// the root, since other ranks know no counts.
func (c *comparison) judgeBlocks() *Verdict {
	calls := c.calls
	n, first := len(calls), calls[0]
	for a, x := range calls {
		for b, y := range calls {
			var v *Verdict
			switch {
			case first.is(perf.Alltoallv):
				if len(x.Counts) == n && len(y.From) == n {
					v = c.judgeBlock(a, x.part(b), b, y.from(a))
				}
			case a == b, len(y.Counts) != n, first.is(perf.Allgatherv) && len(x.Counts) != n:
			case (first.is(perf.Gatherv) || first.is(perf.Scatterv)) && b == first.Root, first.is(perf.Allgatherv):
				v = c.judgeBlock(a, x.own(a), b, y.part(a))
			}
			if v != nil {
				return v
			}
		}
	}
	return nil
}

// judgeBlock compares what ranks a and b know of a block. Of views it compares bytes and then
// signatures: what is one element at one rank may be several at the other, if the numbers in it
// follow each other in the same way.
func (c *comparison) judgeBlock(a int, x block, b int, y block) *Verdict {
	views := x.call.Parts != nil || y.call.Parts != nil
	switch {
	case !views && x.count != y.count:
		return &Verdict{c.classes[Counts], fmt.Sprintf("%s against %s: %d elements, but the other rank has a count of %d for them",
			c.describe(a), c.describe(b), x.count, y.count)}
	case views && x.bytes() != y.bytes():
		return &Verdict{c.classes[Counts], fmt.Sprintf("%s against %s: %d bytes, but the other rank has %d bytes for them",
			c.describe(a), c.describe(b), x.bytes(), y.bytes())}
	case views && x.signature() != y.signature():
		return &Verdict{c.classes[Types], fmt.Sprintf("%s against %s: the %d bytes are of other types at the other rank",
			c.describe(a), c.describe(b), x.bytes())}
	}
	return nil
}

// describe returns a call in words: "Allreduce of 11 float64 (sum) at solver/main.go:31 (rank 1)".
func (c *comparison) describe(rank int) string {
	x := c.calls[rank]
	text := x.Call.String()
	if x.Parts != nil {
		text += " of views"
	} else if x.Data != "" && x.Name == "" {
		text += fmt.Sprintf(" of %d bytes of %s (signature %s)", x.Count, MixedName, x.Data)
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
	if slices.ContainsFunc(c.calls, func(y *Call) bool { return y != nil && y.Idups != x.Idups }) {
		text += fmt.Sprintf(" after %d Idup", x.Idups)
	}
	text += fmt.Sprintf(" at %s (rank %d", x.Where, rank)
	if n := c.peers[rank]; int(n) != rank {
		text += fmt.Sprintf(", process %d", n)
	}
	return text + ")"
}
