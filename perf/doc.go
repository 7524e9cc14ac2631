// Package perf records what a rank does, so that others can look on without stopping it: counters, latencies, who sends
// how much to whom, and what the rank waits for now.
//
// A rank writes its page, [PageBytes] of memory that it was handed. Whoever maps the same memory reads it, at any time, also
// after the rank has died:
//
//	r, err := perf.NewRecorder(memory, perf.Identity{Rank: 3, Size: 8}, perf.On)
//	...
//	start := r.Begin(perf.Send, len(b))
//	...                                  // do it
//	r.End(perf.Send, len(b), start)
//
//	page, err := perf.Open(memory)       // elsewhere
//	s, err := page.Snapshot()
//	for _, o := range s.Ops {
//		fmt.Println(o.Op, o.Class, o.Calls, o.Bytes, o.Latency.Quantile(0.99))
//	}
//
// Under ibrun the memory of all ranks of a node is one anonymous file that the launcher maps, too; internal/ranklink hands it
// over. A rank that was started otherwise writes to memory of its own.
//
// # What is exact, and what is sampled
//
// Counts of calls, messages and bytes are exact. Every operation of [AlwaysTimed] bytes or more is timed, and of the shorter
// ones the first 32 of each kind and then one in 32, which stands for 32 in the histogram. So the count and sum of a
// histogram estimate calls and time without further arithmetic, and histograms of different sizes, operations and ranks add up.
// With IBRUN_PERF=all every operation is timed, with off nothing is recorded at all.
//
// # Histograms
//
// Durations are nanoseconds in log-linear buckets, [SubBuckets] to each power of two: a quantile is at most 1/32 from the
// recorded value (plus half a nanosecond below 16). A histogram is taken from a pool of [Histograms] when an operation first
// occurs with a size of a class; where the pool is used up counts go on and latencies are missing, and Snapshot says so.
//
// # Peers
//
// What goes to and comes from each peer is counted for the first [PeerRows] peers that a rank exchanges messages with.
// Those after them share one row, with rank -1: a large job, where most ranks talk to few others, still has an exact
// matrix, and a page has a fixed size.
//
// # Traces
//
// A page has sums; a [Trace] has what they are made of, one event after the other, if somebody asked for that:
//
//	t, err := perf.NewTrace(memory, identity)
//	r.Trace(t, clock)
//	...
//	traced, err := perf.ReadTrace(memory) // elsewhere, when the rank has ended or died
//
// It is a ring with room for the last [TraceEvents]: each operation, by the recorder's Begin and End, and each message as it
// leaves and as it meets its receive. Both ends of it bear the same number, so that the traces of all ranks make one picture.
//
// # One writer, any number of readers
//
// A page has one writer. Its methods are called by one goroutine at a time; package mpi calls them under the lock of its
// engine. Counters are plain stores to words of 64 bits, which cannot tear. What belongs together, the current operation, carries
// its sequence number in every word, so a reader that meets a change half way sees that numbers differ and looks again. No
// time stamp is taken for it: the watcher notes when it first saw a sequence number.
//
// The layout has a version. A page of another one is a [*VersionError], one that nobody has written yet [ErrEmpty], and one that
// makes no sense [ErrCorrupt]; reading never trusts a number that it found in the page.
package perf
