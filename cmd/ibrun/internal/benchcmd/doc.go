// Package benchcmd is `ibrun bench`: package bench on the command line.
//
//	ibrun bench                           what can be measured
//	ibrun bench allreduce -n 4            starts 4 ranks and prints a table, one line per size
//	ibrun bench versus --op latency,bw    ours beside Open MPI and MPICH, alternating in one run
//	ibrun bench verbs --op send_lat       RDMA: ours beside perftest, alternating in one run
//	ibrun bench overhead                  what recording for metrics and reports costs
//	ibrun bench hints                     communicators with a hint beside such without, alternating in one run
//
// `ibrun bench OP` is both halves of a job. Without a launcher it starts ibrun itself as the rank program, with the
// same words again; as a rank of a job, under ibrun or any launcher that speaks PMI, it measures, and rank 0
// prints. So `srun -N 2 ibrun bench latency` works as well.
//
// Every flag has an environment form: --sizes is also IBRUN_BENCH_SIZES.
//
// What was asked for goes to stdout, ibrun's own words to stderr. Exit codes: 2 for wrong use, 1 where something
// could not be measured or data arrived wrong, 130 after Ctrl-C, otherwise 0.
//
// # versus
//
// For each operation and rank count, ours and every peer run in turn, at least seven rounds; a run is one launch
// that measures all sizes. A point is the median of its rounds. A point is printed when its rounds are over, one
// line per peer, with --json one object per line:
//
//	{"op":"latency","ranks":2,"size":8,"unit":"us","ours":0.091,"peer":0.136,"peer_name":"openmpi","ratio":1.49}
//
// A ratio above 1 means that ours is better, whether the unit is a time or a rate. The operation init is the time
// of a whole command that starts 32 ranks, initialises and finalizes them. Peers are built from the C program of
// package bench with -O3 and run with a core per rank; where there are more ranks than cores they are told so, and
// what was typed is printed.
//
// Over --transport tcp two bare sockets in Go that are spun on (package bench/sockets) and iperf3 with one stream run as well,
// and over rdma the programs of perftest instead of MPI implementations, with ib_send_lat for latency and ib_write_bw for bw.
// They have figures for two ranks, and for what they measure; iperf3 from 16 KiB on. All but iperf3 have a core for each side.
//
// # verbs
//
// The programs of perftest and package bench/perftest run in turn on one RDMA device, each as a server and a client on
// this machine, with a core for each if there are two, ours once through each provider of package verbs. A first run of
// perftest tells how many iterations fill the time of a run, and each of its runs which queue depth, moderation, inline size
// and path MTU it has chosen: ours takes the same. The lines are those of versus with a field more:
//
//	{"op":"send_lat","ranks":2,"size":8,"unit":"us","ours":12.1,"peer":11.9,"peer_name":"perftest","ratio":0.98,"provider":"rxe"}
//
// # overhead
//
// The ranks of one job measure with recording and without in turn, for some milliseconds each, so that whatever else happens
// on the machine meets both. The lines are those of versus, with recording as ours and "off" as the peer.
//
// # hints
//
// Each hint is measured in a use that it is meant for, by two ranks, with and without it in turn; a figure is the best of
// its rounds. The lines are those of versus: ours is with the hint, the peer without it, and a field names the hint:
//
//	{"op":"unexpected","ranks":2,"size":8,"unit":"us","ours":0.1,"peer":0.14,"peer_name":"off","ratio":1.4,"hint":"no_any_tag"}
package benchcmd
