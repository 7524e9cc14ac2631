// Package benchcmd is `ibrun bench`: package bench on the command line.
//
//	ibrun bench                           list the operations
//	ibrun bench allreduce -n 4            starts 4 ranks and prints a table, one line per size
//	ibrun bench versus --op latency,bw    compare ibrun with Open MPI and MPICH
//	ibrun bench verbs --op send_lat       compare package verbs with perftest
//	ibrun bench overhead                  measure the cost of recording for metrics and reports
//	ibrun bench hints                     measure the gain of hints for communicators
//	ibrun bench goroutines                measure round trips of many goroutines of a rank at once
//	ibrun bench paths                     compare the protocol that is chosen with every other one, and settings
//	ibrun bench performance               compare with Open MPI and MPICH, and print a section of docs/performance.md
//
// `ibrun bench OP` is both the launching command and the rank program. Without a launcher it starts itself as the rank program,
// with the same arguments. As a rank of a job, under ibrun or any launcher with PMI, it measures, and rank 0 prints. So `srun -N
// 2 ibrun bench latency` works as well.
//
// Every flag has an environment form: --sizes is also IBRUN_BENCH_SIZES.
//
// Results go to stdout, messages to stderr. Exit codes: 0 success; 1 a measurement failed or data arrived wrong; 2 usage error;
// 130 after Ctrl-C.
//
// # versus
//
// For each operation and rank count, ibrun and every peer run alternately, in at least seven rounds. A run is one launch that
// measures all sizes. The figure of a size is the median of its rounds. It is printed when the rounds of a launch are over, one
// line per peer; with --json one object per line:
//
//	{"op":"latency","ranks":2,"size":8,"unit":"us","ours":0.091,"peer":0.136,"peer_name":"openmpi","ratio":1.49,
//	 "peer_version":"4.1.4","transport":"shm"}
//
// A ratio above 1 means that ibrun is better, whether the unit is a time or a rate. The operation
// init is the time of a whole command that starts, initialises and finalizes 32 ranks. Peers are
// built from the C program of package bench with -O3 and run with a core per rank. That program is
// in the sources of ibrun only: those of the Go module in the working directory, or in the folder
// of --sources. So is the reference program, bench/reference, which is built by go build, or is the
// file of --reference. If there are more ranks than cores, peers get the flags for
// oversubscription. The commands are printed. With --peers DIR, the commands of the peers are those
// in DIR/bin.
//
// Operations such as ibcast are immediate collectives, which are waited for at once. Of overlap the figure is the time of the
// Wait, after all ranks have slept for as long as the blocking call takes. Of overlap_compute it is the time of an immediate
// collective and of a computation together, of which each alone takes the same time.
//
// Of the operations vector, struct and subarray, every run first checks the data that arrives, on both sides.
//
// With --transport tcp, two reference implementations run as well: a pair of polled sockets in Go
// (the reference program, by package bench/sockets) and iperf3 with one stream. With --transport
// rdma, the programs of perftest replace the MPI implementations: ib_send_lat for latency and
// ib_write_bw for bw. A reference implementation has figures for two ranks and its own operations
// only; iperf3 from 16 KiB on. All but iperf3 have a core for each side.
//
// # verbs
//
// The programs of perftest and the reference program, by package bench/perftest, run alternately on
// one RDMA device, each as a server and a client on this machine, with a core for each if there are
// two. Ours runs once with each provider of package verbs. A first run of perftest finds the number
// of iterations for the time of a run. The output of each perftest run has its queue depth,
// moderation, inline size and path MTU; ours uses the same. The lines are those of versus with an
// additional field:
//
//	{"op":"send_lat","ranks":2,"size":8,"unit":"us","ours":12.1,"peer":11.9,"peer_name":"perftest","ratio":0.98,"provider":"rxe"}
//
// # overhead
//
// The ranks of one job measure with and without recording alternately, for some milliseconds each, so that other load on the
// machine affects both. The lines are those of versus, with recording as ours and "off" as the peer.
//
// # hints
//
// Two ranks measure each hint in a use that it is meant for, with and without it alternately. A figure is the best of its rounds.
// The lines are those of versus: ours is with the hint, the peer is without it, and a field names the hint:
//
//	{"op":"unexpected","ranks":2,"size":8,"unit":"us","ours":0.1,"peer":0.14,"peer_name":"off","ratio":1.4,"hint":"no_any_tag"}
//
// # goroutines
//
// Two ranks make round trips of 8 bytes with 1, 8 and 128 goroutines each, over TCP and then over shared memory. Goroutine i of
// one rank sends to goroutine i of the other, which answers. The lines are those of versus, with the transport and the number of
// goroutines. The peer "1 goroutine" is the rate of one goroutine. Over TCP, the same ranks make calls of package net/rpc
// alternately with messages: all goroutines share one client (the peer "net/rpc"), or each has one ("net/rpc each"). A figure is
// the median of its rounds.
//
//	{"op":"goroutines","ranks":2,"size":8,"unit":"trips/s","ours":500000,"peer":125000,"peer_name":"net/rpc",
//	 "ratio":4,"transport":"tcp","goroutines":128}
//
// # paths
//
// Two ranks send messages of each size by every protocol (the hint ibrun_protocol), and by the one that they choose, alternately.
// The best protocol is found in the even rounds, and compared in the odd ones. The lines are those of versus: ours is the
// protocol that was chosen, the peer is the best one. The ratio is the geometric mean over the rounds, and low and high are its
// 95 % interval. If a line has the field written, each message was written before it was sent, in bw all messages of a window
// before the first of them; the figures leave that out. bw has windows of at most 32 messages.
//
//	{"op":"latency","ranks":2,"size":1048576,"unit":"us","ours":70,"peer":52,"peer_name":"shared","ratio":0.74,"transport":"shm",
//	 "chosen":"parts","low":0.7,"high":0.78,"written":true,"protocols":{"copied":81,"parts":70,"read":70,"shared":52}}
//
// With --settings, jobs with one setting of the transport each, such as IBRUN_SHM_RING=131072, and jobs without one are then
// measured alternately.
// The lines have the field settings in place of protocols, and ours is the job without a setting.
//
// # tune
//
// Jobs measure every algorithm of a collective, and the choice without a table, alternately. The table of --output has the
// algorithm with the shortest time. In four rounds or more the choice is compared with the best algorithm as in paths: the lines
// are those of paths, with algorithms in place of protocols. chosen is the algorithm that `ibrun explain` names.
//
// # performance
//
// It runs comparisons of versus over shared memory and TCP, and prints a section of docs/performance.md: the machine, the
// versions, and a table, whose cells have our figure and its ratio to the best peer.
package benchcmd
