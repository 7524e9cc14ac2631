package main

import (
	"os"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch"
)

func main() {
	os.Exit(run(os.Args[1:], os.Environ(), launch.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
