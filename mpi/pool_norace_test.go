//go:build !race

package mpi_test

// poolAllocs is how many allocations a call may make whose memory is from a sync.Pool.
const poolAllocs = 0
