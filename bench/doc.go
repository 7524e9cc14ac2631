// Package bench measures how fast package mpi moves bytes, in the way and with the names of the OSU micro-benchmarks.
//
// An [Op] is one measurement: latency, bw, bibw and mbw_mr between pairs of ranks, and every collective operation.
// [Run] is called by all ranks of a communicator and hands one [Result] per message size to rank 0:
//
//	p, err := mpi.Init(ctx, nil) // or in mpi.Main
//	if err != nil { ... }
//	defer p.Finalize()
//	op, err := bench.Lookup("allreduce")
//	if err != nil { ... }
//	err = bench.Run(p.World(), op, bench.Config{Sizes: []int{8, 65536}}, func(r bench.Result) error {
//		_, err := fmt.Println(r.Size, r.Value, r.Unit)
//		return err
//	})
//
// On the command line the same is `ibrun bench allreduce --sizes 8,64K`. [Table] and [Plot] print what was measured.
//
// # What is measured
//
// Send and receive buffers are separate, page aligned, and every byte was touched before. Sizes are those OSU
// prints: bytes of one message; for a reduction bytes of one vector of float32; for gather, scatter, allgather and
// alltoall bytes per pair of ranks. The root is rank 0.
//
//   - latency: half the time of a ping-pong, clock of rank 0.
//   - bw, mbw_mr: rank i sends a window of messages to rank i+n/2, waits for all, and then for a 4-byte answer. bw is that of
//     one pair in 10^6 bytes per second, mbw_mr that of all pairs in messages per second, over the mean of the senders' clocks.
//   - bibw: both ranks post a window of receives and a window of sends, and wait for all.
//   - vector, struct, subarray: latency of derived datatypes, sent from and received into the same layout. The size is that of
//     the data. vector is a column of a matrix of doubles with 32 columns. struct is an array of structs of 40 bytes, 32 of which
//     are data: a char, five short, two double, a char and an int. subarray is the face of the inside of a three-dimensional
//     array of doubles, normal to the last dimension, in which the inside has 32 elements and the array 34.
//   - barrier: barriers back to back; the mean over the ranks' clocks.
//   - every other collective: each call is timed by itself, followed by a barrier that is not counted; the mean over the
//     ranks of their mean times, and the fastest and the slowest rank's.
//
// The clock is read twice around the whole loop, except around each call of a collective, and after each turn where percentiles
// were asked for. Where messages are written before they are sent, it is read around that as well. The loops allocate nothing, so
// the garbage collector, run just before, stays out of them.
//
// # The C twin
//
// testdata/peer.c is a C program that makes the same measurements over any MPI. `ibrun bench versus`
// builds it with the MPI implementations that are installed, and compares them with this package.
// Its loops, its numbers of iterations and its figures are computed as here. So change both
// together.
package bench
