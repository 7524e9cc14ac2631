package launch

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestAddressSpaceNote: only a small address space is named.
func TestAddressSpaceNote(t *testing.T) {
	for limit, want := range map[uint64]string{
		unix.RLIM_INFINITY: "", 1 << 30: "",
		900_000 << 10: "the address space of a process is limited to 878 MiB (ulimit -v): ibrun and programs of Go need 1024 MiB " +
			"each, and may crash",
	} {
		if got := noteAddressSpace(limit); got != want {
			t.Errorf("%d bytes: %q, want %q", limit, got, want)
		}
	}
}
