// Package reduction defines the predefined reductions over elements of messages.
//
// A reduction is a [Func]: it combines two operands element by element and stores the result. Operands and result are bytes, so
// that the code of the collectives is compiled once and not once per Go type. [Lookup] returns the reduction for an operation and
// a kind, in a few nanoseconds and without allocating:
//
//	add, ok := reduction.Lookup(reduction.Sum, datatype.Float32) // ok is false if the standard does not define it
//	add(dst, a, b)                                            // dst[i] = a[i] + b[i]
//	add(dst, dst, b)                                          // dst[i] += b[i]
//
// [User] makes a Func of a user-defined function, so that collectives treat all operations in the same way.
//
// Results are the same on every machine, with and without vector instructions:
//
//   - Integers wrap around, as in Go.
//   - Min and Max of floating-point numbers are Go's built-in min and max: the result is NaN if an operand is, and -0 is less
//     than +0. A NaN result has all bits set. So they are associative and commutative to the last bit, and a result
//     depends neither on the number of ranks nor on the algorithm.
//   - Sum and Prod of floating-point numbers round as IEEE 754 says, so their result depends on the order of operands.
//     If both operands are NaN the payload of the result is unspecified.
//   - Float16 and BFloat16 are added and multiplied as float32, and each result is rounded to the nearest, ties to even.
//   - For the logical operations every integer that is not 0 is true; their result is 1 or 0.
//   - A Go bool is a byte that is 0 or 1. The logical operations are defined on it, and the bitwise ones have the
//     same results; Sum, Prod, Min and Max are not defined on it.
//
// Everything in this package may be used by several goroutines concurrently.
package reduction
