// Package datatype describes data in memory: basic elements and where they are. It copies such data into a row of packed
// bytes and back, or lists the blocks of memory, and knows nothing of messages.
//
// A [Type] is made by the constructors of the standard, MPI-5.0 chapter 5, from predefined types ([OfKind], [Named]) or from
// Go types ([GoTypes.Of]). It does not change. The third column of a matrix of float64 with 128 columns:
//
//	column, err := datatype.Vector(rows, 1, 128, datatype.OfKind(datatype.Float64))
//	column.Commit()                           // compiles
//	b, err := column.Buffer(mem, 2*8, 1)      // one element, whose displacement 0 is mem[16]; all bounds are checked here
//	for from := int64(0); from < b.Size(); {  // fragments of any length
//		n := b.Pack(fragment, from)
//		send(fragment[:n])
//		from += int64(n)
//	}
//
// The receiver calls Unpack in the same way. Fragments may come in any order and be cut anywhere. Transports that take
// several addresses need no copy: Blocks fills a slice with the next blocks of memory, Contiguous returns the memory if it
// is one block, and BlockLen helps to choose.
//
// # Type maps
//
// A type stands for its type map, a sequence of basic elements with displacements, together with its bounds. The package
// keeps it as a tree of repetitions and sequences (layout), never written out, so a type may have any number of elements.
// Beside the bounds and sizes each node has a hash of the type map below it. The hash of a repetition follows from that of
// what is repeated in a few steps. So types are compared in constant time, and so are signatures of messages at different
// ranks ([Signature]).
//
// The bounds are those of the standard: without explicit ones the extent is rounded up to the greatest alignment of an element,
// for every constructor. Sizes, displacements and extents have 63 bits; what exceeds them is an error.
//
// # Programs
//
// Commit compiles the layout to a tree of copies (program): loops over copies, lists of blocks of one length, of any lengths,
// and lists of such. It joins blocks that touch and loops that continue each other, and finds loops in lists of
// displacements. Every node knows its packed length, so the byte at which a fragment begins is found by a division at each
// level.
//
// Two nested loops over blocks are one function, compiled for blocks of 1, 2, 4, 8, 16, 32 and 64 bytes; blocks of other
// short lengths are copied by two moves that overlap. A loop over a few blocks, such as the fields of a struct, is copied
// field by field in pieces that stay in the first-level cache, so that it consists of loops over blocks of one length as
// well.
//
// How fast a loop over distant blocks is depends on caches more than on instructions, so there are four forms of it
// (copyLoops): unrolled, not unrolled, with pauses for stores that meet in few sets of the first-level cache, and in tiles
// for a matrix that is copied by columns.
//
// # Concurrency
//
// All functions may be called concurrently; a buffer only if its memory allows it. Moving data does
// not allocate.
//
// # Files
//
//	kind.go, external.go         the kinds of basic elements, and their form in external32 data
//	type.go, contents.go         a type, and how it was made
//	predefined.go, gotype.go     the types of the standard and of Go
//	construct.go, array.go       the constructors
//	typemap.go, signature.go     the layout of a type, and the hashes of type maps and signatures
//	compile.go                   flattens a layout, and compiles it to a program
//	buffer.go                    elements in memory, which are packed and unpacked
//	mover.go, mover_unsafe.go    carry out a program for a range of packed bytes
//	overlap.go                   finds entries of a type that overlap
//	errors.go                    the errors, and arithmetic that notices overflow
package datatype
