package datatype

import (
	"fmt"
	"slices"
	"strings"
)

// Combiner says which constructor has made a type. MPI-5.0 §5.1.13.
type Combiner uint8

// The combiners, with the values of the MPI-5.0 ABI. The comments name the contents: Ints, then Addrs; Types has the old type
// unless they say otherwise.
const (
	CombinerNamed         Combiner = 101 // none: predefined
	CombinerDup           Combiner = 102 //
	CombinerContiguous    Combiner = 103 // count
	CombinerVector        Combiner = 104 // count, block length, stride
	CombinerHVector       Combiner = 105 // count, block length; stride
	CombinerIndexed       Combiner = 106 // count, block lengths, displacements
	CombinerHIndexed      Combiner = 107 // count, block lengths; displacements
	CombinerIndexedBlock  Combiner = 108 // count, block length, displacements
	CombinerHIndexedBlock Combiner = 109 // count, block length; displacements
	CombinerStruct        Combiner = 110 // count, block lengths; displacements; one type for each block
	CombinerSubarray      Combiner = 111 // dimensions, sizes, subsizes, starts, order
	CombinerDarray        Combiner = 112 // processes, rank, dimensions, global sizes, distributions, arguments, grid, order
	CombinerResized       Combiner = 116 // lower bound, extent, both in Addrs
)

var combinerNames = map[Combiner]string{
	CombinerNamed: "named", CombinerDup: "dup", CombinerContiguous: "contiguous", CombinerVector: "vector",
	CombinerHVector: "hvector", CombinerIndexed: "indexed", CombinerHIndexed: "hindexed", CombinerIndexedBlock: "indexed_block",
	CombinerHIndexedBlock: "hindexed_block", CombinerStruct: "struct", CombinerSubarray: "subarray", CombinerDarray: "darray",
	CombinerResized: "resized",
}

// String returns the name of the constructor, such as "indexed_block", and "" for an unknown value.
func (c Combiner) String() string { return combinerNames[c] }

// Contents are the arguments from which a type was made. Lengths of arrays come before them, as in the standard.
type Contents struct {
	Combiner Combiner
	// Ints are counts, and displacements that count elements.
	Ints []int64
	// Addrs are displacements and extents in bytes.
	Addrs []int64
	// Types are the old types.
	Types []*Type
}

// String returns the name of the type, or how it was made of which others: "vector(3 1 128) of float64". Long lists of
// arguments are cut.
func (t *Type) String() string {
	const shown = 8 // arguments, and levels of nesting
	return t.text(shown, shown)
}

func (t *Type) text(shown, levels int) string {
	c := t.contents
	switch {
	case t.name != "":
		return t.name
	case levels == 0:
		return "..."
	case c.Combiner == CombinerDup:
		return c.Types[0].text(shown, levels)
	}
	args := slices.Concat(c.Ints, c.Addrs)
	more := ""
	if len(args) > shown {
		args, more = args[:shown], " ..."
	}
	old := make([]string, min(len(c.Types), shown))
	for i := range old {
		old[i] = c.Types[i].text(shown, (levels-1)/max(1, len(old)))
	}
	if len(old) < len(c.Types) {
		old = append(old, "...")
	}
	list := fmt.Sprint(args)
	return fmt.Sprintf("%v(%s%s) of %s", c.Combiner, list[1:len(list)-1], more, strings.Join(old, ", "))
}

// Envelope returns the constructor of the type, and the numbers of integers, addresses and types in its contents. MPI-5.0
// §5.1.13.
func (t *Type) Envelope() (combiner Combiner, ints, addrs, types int) {
	return t.contents.Combiner, len(t.contents.Ints), len(t.contents.Addrs), len(t.contents.Types)
}

// Contents returns the arguments of the constructor, which the caller may change. The error is ErrNamed if the type is
// predefined. MPI-5.0 §5.1.13.
func (t *Type) Contents() (Contents, error) {
	c := t.contents
	if c.Combiner == CombinerNamed {
		return Contents{}, ErrNamed
	}
	return Contents{c.Combiner, slices.Clone(c.Ints), slices.Clone(c.Addrs), slices.Clone(c.Types)}, nil
}
