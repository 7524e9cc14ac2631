// Package inspect lets people look at jobs while they run: which there are, how busy their ranks are, and what they wait for.
//
// Each ibrun serves a socket of its own in a directory that only its user can enter, and the commands ask there:
//
//	desk, err := live.Serve(source)         // ibrun, while its job runs
//	defer desk.Close()
//
//	jobs, err := live.Jobs(ctx)             // ibrun ps
//	v, err := live.Look(ctx, jobs[0].Remote())
//	err = v.Text(os.Stdout)                 // ibrun hang: the hang view
//
// A [Source] tells about the ranks of a job: ibrun itself is one, which asks the ibruns on other nodes, and [Job.Remote]
// another. The hang view is made from a source, so that ibrun shows the same on SIGUSR1 as `ibrun hang` does from outside.
// [Watch] notes since when: ranks leave no time stamps.
//
// Whoever asks waits for a bounded time only, and the job for nobody.
package inspect
