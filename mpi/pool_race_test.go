//go:build race

package mpi_test

// poolAllocs is how many allocations a call may make whose memory is from a sync.Pool. With the race detector a pool drops some
// of what is put into it, at random.
const poolAllocs = 8
