//go:build linux

package verbs_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/threadtest"
	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs"
)

// TestLiveNetworkNamespace: Soft-RoCE of this kernel works in the initial network namespace only. In another one the device is
// listed with the reason, and Open returns it as a typed error.
func TestLiveNetworkNamespace(t *testing.T) {
	live.Nodes(t, 1)
	name := live.Device(t)
	dev, err := verbs.Open(name, verbs.Options{})
	must(t, err)
	must(t, dev.Close())
	threadtest.Run(func() { // the namespace ends with the thread
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		devices, err := verbs.Devices()
		i := slices.IndexFunc(devices, func(d verbs.Device) bool { return d.Name == name })
		if err != nil || i < 0 {
			t.Errorf("%s is not among %+v, %v", name, devices, err)
			return
		}
		_, err = verbs.Open(name, verbs.Options{})
		_, errAny := verbs.Open("", verbs.Options{})
		for what, err := range map[string]error{"listed": devices[i].Err, "opened": err, "any": errAny} {
			var access *hw.AccessError
			if !errors.Is(err, verbs.ErrNotSupported) && what != "any" || !errors.As(err, &access) ||
				!strings.Contains(err.Error(), "network namespace") {
				t.Errorf("%s in another network namespace: %v", what, err)
			}
		}
	})
}
