package checking

import (
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// Call describes a call of a collective. The ranks send it as JSON.
type Call struct {
	Call perf.Op
	Type datatype.Kind `json:",omitempty"` // of the elements; 0: none
	// Data is the signature of elements that are not numbers, and Name the name of their Go type.
	// Name is empty for packed data of a view.
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
	Parts *Parts `json:",omitempty"`
	// Idups is how many Idups the rank has started on the communicator, since their order counts as
	// well.
	Idups   uint32   `json:",omitempty"`
	Where   string   // source position of the call
	Failure *Verdict `json:",omitempty"` // the error that the rank has found by itself
}

// Parts are the signatures of the blocks of a call of views.
type Parts struct {
	Own          datatype.Signature   // of the block of this rank
	Counts, From []datatype.Signature // as the fields of Call with these names
}

// is reports whether x is a call, or its immediate form.
func (x *Call) is(call perf.Op) bool { return x.compared().Blocking() == call }

// compared returns the call as it is compared.
func (x *Call) compared() perf.Op { return Compared(x.Call) }

// Compared returns a call as it is compared. An Alltoallw is an Alltoallv of views: some ranks may
// pass these, and others slices.
func Compared(call perf.Op) perf.Op {
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
func (x *Call) isNeighbor() bool {
	call := x.compared().Blocking()
	return call >= perf.NeighborAllgather && call <= perf.NeighborAlltoallv
}

// Verdict is the result of the comparison: an error of all ranks. The ranks send it as JSON.
type Verdict struct {
	Class int32 // the error class
	Text  string
}

// Error returns the text, which names the calls that differ, or the one that has failed.
func (v *Verdict) Error() string { return v.Text }

// Difference is in what two calls differ first.
type Difference uint8

// The differences. Calls come first, since nothing else of two different collectives can be compared.
// Roots come next, since different roots explain different lengths. A different length also explains
// a different signature.
const (
	None   Difference = iota
	Calls             // the collectives, or how many Idups the ranks have started before
	Roots             // the roots
	Types             // the types of the elements
	Ops               // the operations of a reduction
	Counts            // the numbers of elements
	differenceCount
)

// Classes has the error class of each Difference.
type Classes [differenceCount]int32

// compare returns the first difference between two calls.
func (x *Call) compare(y *Call) Difference {
	switch {
	case x.compared() != y.compared(), x.Idups != y.Idups:
		return Calls
	case x.Root != y.Root:
		return Roots
	case x.Parts != nil, y.Parts != nil: // see judgeBlocks
		return None
	// Views, whose elements may be of any kinds.
	case x.isNeighbor() && (x.Type == datatype.Byte || y.Type == datatype.Byte):
		return None
	// Data depends on Count, which explains more.
	case x.Type != y.Type, x.Data != y.Data && x.Count == y.Count:
		return Types
	case x.Op != y.Op:
		return Ops
	case x.is(perf.Gatherv), x.is(perf.Scatterv), x.is(perf.Alltoallv): // see judgeBlocks
		return None
	case x.Count != y.Count, !slices.Equal(x.Counts, y.Counts):
		return Counts
	}
	return None
}

// MixedName is the name of elements that are neither numbers of one kind nor values of a Go type.
const MixedName = "several types"

// elements returns the name of the elements; empty if there are none.
func (x *Call) elements() string {
	if x.Type == 0 {
		return x.Name
	}
	return x.Type.String()
}
