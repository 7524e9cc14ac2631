// Package perf records the activity of a rank in memory that other processes can read while the rank runs: counters, latencies,
// the traffic with each peer, and the calls in progress.
//
// A rank writes its page: [PageBytes] of memory that it was passed. A process that maps the same memory can read the page at any
// time, also after the rank has died:
//
//	r, err := perf.NewRecorder(memory, perf.Identity{Rank: 3, Size: 8}, perf.On)
//	...
//	start := r.Begin(perf.Send, len(b))
//	...                                  // the operation
//	r.End(perf.Send, len(b), start)
//
//	page, err := perf.Open(memory)       // in the reader
//	s, err := page.Snapshot()
//	for _, o := range s.Ops {
//		fmt.Println(o.Op, o.Class, o.Calls, o.Bytes, o.Latency.Quantile(0.99))
//	}
//
// Under ibrun the memory of all ranks of a node is one anonymous file, which the launcher maps as well; internal/ranklink passes
// its descriptor. A rank that was started otherwise writes to private memory.
//
// # Exact and sampled values
//
// Counts of calls, messages and bytes are exact. Every operation of [AlwaysTimed] bytes or more is timed, and of shorter
// ones the first 32 of each kind and then one in 32 on average, chosen at random, which counts in the histogram for all since the
// last one. So the count and sum of a histogram estimate calls and time directly, and histograms of different sizes, operations
// and ranks can be added.
// IBRUN_PERF=all times every operation; IBRUN_PERF=off records nothing.
//
// # Histograms
//
// Durations are nanoseconds in log-linear buckets, [SubBuckets] to each power of two: a quantile differs by at most 1/32 from the
// recorded value (plus half a nanosecond below 16). A histogram is taken from a pool of [Histograms] at the first operation of a
// kind and size class. When the pool is empty, operations are still counted, but have no latencies; Snapshot.WithoutHistogram is
// the number of these.
//
// # Peers
//
// Traffic is counted per peer for the first [PeerRows] peers that a rank exchanges messages with. Further peers share one row for
// each transport, with rank -1. So a page has a fixed size, and a large job in which each rank has few partners still has an
// exact traffic matrix.
//
// # Traces
//
// A page has sums; a [Trace] has the single events, if the user asked for a trace:
//
//	t, err := perf.NewTrace(memory, identity)
//	r.Trace(t, clock)
//	...
//	record, err := perf.ReadTrace(memory) // in the reader, when the rank has ended or died
//
// It is a ring that holds the last [TraceEvents] events: each operation, by the recorder's Begin and End, and each message,
// when it is sent and when it is matched with its receive. Both events of a message have the same number, which connects the
// traces of the two ranks.
//
// # One writer, any number of readers
//
// A page has one writer. Its methods are called by one goroutine at a time; package mpi calls them under the lock of its
// engine. Counters are plain stores to words of 64 bits, which are never torn. The words of an operation in progress belong
// together: each contains the operation's sequence number, so a reader that sees a partial update finds different numbers and
// reads again. The rank takes no time stamp for it: the reader records when it first saw a sequence number.
//
// The layout has a version. Reading a page of another version returns a [*VersionError], a page that was never written
// [ErrEmpty], and an invalid one [ErrCorrupt]. Readers check every number of a page before they use it.
package perf
