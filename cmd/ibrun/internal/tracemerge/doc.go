// Package tracemerge merges the profiles and traces of the ranks of a job: into one profile for go tool pprof, and into one
// timeline for Perfetto.
//
//	ranks := []tracemerge.Rank{{Rank: 0, Node: "n0", Trace: ..., Profile: ...}, ...}
//	warnings, err := tracemerge.Profiles(file, ranks)
//	warnings, err = tracemerge.Timeline(file, ranks)
//
// The warnings are for the user: which ranks are missing, and what was lost.
package tracemerge

// Rank is what one rank recorded.
type Rank struct {
	// Rank is its rank in the world communicator, and Node the name of its node.
	Rank int
	Node string
	// Trace is the used part of its trace (package perf), and Profile the used part of its profiles (package perf/profile). They are
	// empty if the rank wrote none.
	Trace, Profile []byte
}
