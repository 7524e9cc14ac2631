// Package jobs reads the counters of running jobs from outside: a controller, an autoscaler or an exporter of metrics finds the
// jobs of its user on this machine, and what their ranks do. It is the client of the commands `ibrun ps`, `top` and `hang`.
//
//	all, err := jobs.List(ctx)            // the jobs of this user on this machine
//	job, err := jobs.Find(ctx, "kx7m")    // by its id, the beginning of it, or the process id of its ibrun
//	ranks, err := job.Ranks(ctx)          // all ranks: state, calls, bytes, waits, progress
//	pages, err := job.Snapshots(ctx)      // the ranks on this machine: every counter, latencies
//	for _, o := range perf.MergeOps(pages...) {
//		fmt.Println(o.Op, o.Class, o.Calls, o.Bytes, o.Latency.Quantile(0.99))
//	}
//
// A [Rank] is a summary, of ranks on other machines too. A [perf.Snapshot] has everything that a rank records: messages and bytes
// by transport, protocol and peer, histograms of latencies by operation and size, the time spent waiting, queues, registered
// memory. Functions of package perf add snapshots up and compare them. The ibrun on another machine returns the snapshots there.
//
// # How it works
//
// Each ibrun listens on a Unix socket in a directory that only its user can open; docs/live.md says which. Every call of this
// package makes one connection, or one for each job, and closes it. Nothing runs between calls. ibrun reads the memory in which
// the ranks record; the ranks do not notice it. The protocol of the socket is internal.
//
// # Time
//
// Every call ends with its context, and after 3 seconds for each job at the latest: an ibrun that is stopped or overloaded is
// [ErrNoAnswer]. ibrun waits at most one second for other machines and for goroutine stacks.
//
// # Concurrency and ownership
//
// All functions and methods may be called from any goroutine. A [Job] is a value, which holds no connection and need not be
// closed; it remains valid when the job has ended, and its methods then return [ErrNotFound]. What is returned belongs to the
// caller.
//
// # Units
//
// Fields of type float64 are seconds, as in the JSON of the commands; sizes are bytes. Counters count from the start of the job,
// and never decrease.
//
// # Versions
//
// Jobs of every version are listed. If another version of ibrun runs the job and its counters have another meaning, the methods
// return a [*VersionError].
package jobs
