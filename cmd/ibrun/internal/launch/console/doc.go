// Package console is the interface between ibrun and its user: ibrun's standard streams, and the signals that the user sends.
//
//	s := console.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
//	s.Printf("rank %d runs as process %d", rank, pid) // on standard error: "ibrun: rank ..."
//
//	ctx, stop := console.Interruptible("the build")
//	defer stop()
package console
