// Package gotest splits a `go test` into the build on the host and the run in a guest.
//
//	c, err := gotest.Parse([]string{"-v", "-run", "Send", "./verbs/..."})
//	packages, err := c.Build(ctx, dir, stderr)
//	for _, p := range packages {
//		// run p.Binary with c.Flags in p.Dir
//	}
//
// The build needs the go command, its caches and all processors. The run needs the device.
package gotest
