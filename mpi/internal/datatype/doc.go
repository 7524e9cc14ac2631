// Package datatype knows the element kinds that messages are made of, and the predefined reductions over them.
//
// A reduction is a [Func]: it combines two operands element by element into a third place, all three given as bytes, so
// that everything above is compiled once and not once per Go type. [Lookup] finds the one for an operation and a kind,
// in a few nanoseconds and without allocating:
//
//	add, ok := dtype.Lookup(dtype.Sum, dtype.Float32) // ok is false where the standard does not define the operation
//	add(dst, a, b)                                    // dst[i] = a[i] + b[i]
//	add(dst, dst, b)                                  // dst[i] += b[i]
//
// [User] makes a Func of a function that somebody else wrote, so that collectives treat all operations alike.
//
// What the arithmetic does is the same on every machine, with vector instructions and without:
//
//   - Integers wrap around, as in Go.
//   - Min and Max of floating-point numbers are Go's built-in min and max: a NaN wins over every number, and -0 is less
//     than +0. The NaN they give has all bits set. So they are associative and commutative to the last bit, and a result
//     depends neither on the number of ranks nor on the algorithm.
//   - Sum and Prod of floating-point numbers round as IEEE 754 says, so their result depends on the order of operands.
//     Where both operands are NaN it is not said which one's payload the result has.
//   - The logical operations take any integer that is not 0 as true and give 1 or 0.
//   - A Go bool is a byte that is 0 or 1. The logical operations are defined on it, and the bitwise ones do the same as
//     these; Sum, Prod, Min and Max are not defined on it.
//
// Everything in this package may be used by any number of goroutines at once.
package datatype
