package mpi

import "github.com/ibrun/ibrun/mpi/internal/reduction"

// Float16 is a number in the format binary16 of IEEE 754, with 5 bits of exponent and 10 of fraction, as accelerators use it.
// Sum, Prod, Min and Max are defined on it; each step of a reduction is computed as float32 and rounded to the nearest, ties to
// even. Not in MPI-5.0.
type Float16 uint16

// BFloat16 is the upper half of a float32: its range, with 7 bits of fraction. See [Float16]. Not in MPI-5.0.
type BFloat16 uint16

// Float32 returns the number, which a float32 represents exactly. Not in MPI-5.0.
func (x Float16) Float32() float32 { return reduction.Float16(x).Float32() }

// Float32 returns the number, which a float32 represents exactly. Not in MPI-5.0.
func (x BFloat16) Float32() float32 { return reduction.BFloat16(x).Float32() }

// Float16Of returns the Float16 nearest to x, ties to even. From 65,520 on it is infinite. Not in MPI-5.0.
func Float16Of(x float32) Float16 { return Float16(reduction.ToFloat16(x)) }

// BFloat16Of returns the BFloat16 nearest to x, ties to even. Not in MPI-5.0.
func BFloat16Of(x float32) BFloat16 { return BFloat16(reduction.ToBFloat16(x)) }
