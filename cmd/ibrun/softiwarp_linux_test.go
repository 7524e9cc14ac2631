package main

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/soft-roce/link"
	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs"
)

// TestSoftIWARP: the only device is one of iWARP. It is refused by its type, with the reason. A job uses TCP, and doctor names
// the device. IBRUN_SIW is the file of the kernel's module siw.
func TestSoftIWARP(t *testing.T) {
	module := os.Getenv("IBRUN_SIW")
	if module == "" {
		t.Skip("needs the module siw in a guest: bash .ci/guests siw")
	}
	live.Nodes(t, 1)
	onlySoftIWARP(t, module)
	devices, err := verbs.Devices()
	if err != nil || len(devices) != 1 || devices[0].Name != "siw0" {
		t.Fatalf("devices: %+v, %v", devices, err)
	}
	_, err = verbs.Open("siw0", verbs.Options{})
	for _, err := range []error{devices[0].Err, err} {
		if !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "iWARP") {
			t.Errorf("an iWARP device is refused by: %v", err)
		}
	}
	jobOverTCP(t, nil, "siw0", "iWARP")
	out, _ := exec.Command("ibrun", "doctor", "--all").CombinedOutput() // its exit code also depends on other findings
	lines := slices.Collect(strings.Lines(string(out)))
	named := slices.ContainsFunc(lines, func(s string) bool {
		return strings.HasPrefix(s, "info") && strings.Contains(s, "verbs.open") && strings.Contains(s, "siw0 is an iWARP device")
	})
	wrong := slices.ContainsFunc(lines, func(s string) bool {
		return strings.HasPrefix(s, "error") && strings.Contains(s, "siw0")
	})
	if !named || wrong {
		t.Errorf("doctor does not explain the device:\n%s", out)
	}
}

// onlySoftIWARP loads the module, and makes siw0 the only RDMA device of the guest, which has no other use.
func onlySoftIWARP(t *testing.T, module string) {
	t.Helper()
	f, err := os.Open(module)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil {
		t.Fatalf("load %s: %v", module, err)
	}
	links, err := link.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if err := link.Delete(l.Name); err != nil {
			t.Fatal(err)
		}
	}
	if err := netlink.RdmaLinkAdd("siw0", "siw", "eth0"); err != nil {
		t.Fatal(err)
	}
}
