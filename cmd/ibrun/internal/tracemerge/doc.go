// Package tracemerge merges the profiles and traces of the ranks of a job: into one profile for go tool pprof, and into one
// timeline for Perfetto.
//
//	ranks := []gather.Rank{{Rank: 0, Node: "n0", Trace: ..., Profile: ...}, ...}
//	told, err := gather.Profiles(file, ranks)
//	told, err = gather.Timeline(file, ranks)
//
// What they return beside the error is what the user should know of it: which ranks are missing, and what was lost.
package tracemerge

// Rank is what a rank has left.
type Rank struct {
	// Rank is its number in the job, Node the name of its node.
	Rank int
	Node string
	// Trace is the used part of its trace, see package perf, and Profile that of its profiles, see package perf/profile. Empty: it
	// wrote none.
	Trace, Profile []byte
}
