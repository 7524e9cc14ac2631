// Package exitcode defines the exit codes of ibrun, and errors that carry one:
//
//	return exitcode.Errorf(exitcode.NotFound, "%s: no such program in PATH", name)
//	...
//	os.Exit(exitcode.Of(err))
package exitcode
