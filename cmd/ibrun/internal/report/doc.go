// Package report makes the report that ibrun prints at the end of a job: where its time went. Its input is what the launcher
// knows and what the ranks recorded:
//
//	r := report.New(report.Job{ID: id, Began: began, Wall: wall, Nodes: nodes, Ranks: ranks})
//	err := r.Text(os.Stderr)                 // for a terminal
//	err = r.Write("heat.html")               // tables and charts in one file that needs no network
//	err = r.Write("heat.json")               // all of it, for programs
//
// [Report] has the fields of the JSON. docs/report.md explains each number.
package report
