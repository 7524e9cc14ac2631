// Package needtest is for tests that need what a machine may lack: a program, a right, or a feature of the kernel.
//
// `go test ./...` passes on every machine, also in a container and without root. A test that cannot run there is skipped, and
// says what it needs. A machine that must have everything sets CI=true in the environment, as .ci/run does. There such a test
// fails, because otherwise nobody would notice that it no longer runs.
//
//	nft := needtest.Program(t, "nft", "nftables")
//	unshare := needtest.Namespaces(t, "--mount", "--uts")
//	needtest.Networks(t)
//	needtest.Root(t, "to act as another user")
//	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
//		needtest.Missing(t, "the right to mount a file system: %v", err)
//	}
//
// A right is tried, and not derived from the user, because root in a container has only some rights. So a test asks for all that
// it needs before it begins. What fails later is a failure.
//
// All functions must be called by the goroutine of the test, since they end it by Skip or Fatal.
package needtest
