// Package gotest takes a `go test` apart into what happens on the host and what happens in a guest.
//
//	c, err := gotest.Parse([]string{"-v", "-run", "Send", "./verbs/..."})
//	packages, err := c.Build(ctx, dir, stderr)
//	for _, p := range packages {
//		// run p.Binary with c.Flags in p.Dir
//	}
//
// Building needs the go command, its caches and all processors; running needs the device.
package gotest
