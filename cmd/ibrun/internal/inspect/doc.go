// Package inspect shows running jobs: ibrun ps lists them, ibrun top shows how busy their ranks are, and ibrun hang shows what
// the ranks wait for.
//
// Each ibrun has a status server: a Unix socket in a directory that only its user can enter. Package perf/jobs queries
// these sockets:
//
//	server, err := inspect.Serve(source)         // ibrun, while its job runs
//	defer server.Close()
//
//	all, err := jobs.List(ctx)                 // ibrun ps
//	v, err := inspect.NewView(ctx, remoteSource{all[0]})
//	err = v.Text(os.Stdout)                 // ibrun hang: the hang view
//
// A [Source] returns the state of the ranks of a job. The monitor of ibrun is one: it also queries the ibruns on other nodes.
// Another one queries a socket. The hang view is made from a source, so ibrun prints the same view on SIGUSR1 as
// `ibrun hang`.
// [StateTracker] measures how long a state lasts, because ranks record no time stamps.
//
// A query takes a bounded time. The job never waits for a query.
package inspect
