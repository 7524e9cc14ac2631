// Reference is one of two processes that measure together: two bare TCP sockets, or package verbs
// without MPI. `ibrun bench versus` and `ibrun bench verbs` build it from the sources and start it;
// for a machine without a go command, build it elsewhere and name the file with --reference:
//
//	CGO_ENABLED=0 go build ./bench/reference
package main

import (
	"os"

	"github.com/ibrun/ibrun/internal/benchreference"
)

func main() { os.Exit(benchreference.Main(os.Args[1:], os.Stdout, os.Stderr)) }
