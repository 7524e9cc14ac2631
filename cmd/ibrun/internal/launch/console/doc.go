// Package console is the interface between ibrun and its user: ibrun's standard streams, and the signals that the user sends.
//
//	s := console.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
//	s.Warn("the ranks cannot be monitored", console.Attrs{Error: err.Error()}) // on standard error: "ibrun: the ranks ..."
//
//	ctx, stop := console.Interruptible("the build")
//	defer stop()
package console
