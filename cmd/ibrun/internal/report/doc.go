// Package report tells at the end of a job where its time went. It is given what the launcher knows and what the ranks
// recorded, and starts nothing and asks nobody:
//
//	r := report.New(report.Job{ID: id, Began: began, Wall: wall, Nodes: nodes, Ranks: ranks})
//	err := r.Text(os.Stderr)                 // to read at once
//	err = r.Write("heat.html")               // tables and charts in one file that needs no network
//	err = r.Write("heat.json")               // all of it, for programs
//
// [Report] is what the JSON has. docs/report.md tells what each number means.
package report
