package devices

import (
	"errors"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs"
)

// TestCandidates: a device near the rank's processors is preferred to a faster one, and a device
// that cannot work is never chosen.
func TestCandidates(t *testing.T) {
	device := func(name, state string, rate uint64, err error, pus ...int) verbs.Device {
		d := verbs.Device{Err: err}
		d.Name, d.LocalPUs, d.Ports = name, pus, []hw.RDMAPort{{Number: 1, State: state, Rate: rate}}
		return d
	}
	best := func(devices []verbs.Device, allowed []int, preferred []string) (string, bool, error) {
		all, err := Candidates(devices, allowed, preferred)
		if err != nil {
			return "", false, err
		}
		return all[0].Device, all[0].preferred, nil
	}
	far, near := device("far", hw.PortActive, 400, nil, 8, 9), device("near", hw.PortActive, 100, nil, 0, 1)
	locked, down := device("locked", hw.PortActive, 800, verbs.ErrPermission, 0), device("down", "DOWN", 800, nil, 0)
	if got, _, err := best([]verbs.Device{locked, down, far, near}, []int{0, 1}, nil); got != "near" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, _, err := best([]verbs.Device{near, far}, nil, nil); got != "far" || err != nil {
		t.Errorf("all equally near: %q, %v", got, err)
	}
	first := []string{"locked", "far:2", "far:1"}
	got, preferred, err := best([]verbs.Device{locked, near, far}, []int{0, 1}, first)
	if got != "far:1" || !preferred || err != nil {
		t.Errorf("with preferred devices: %q, %v, %v", got, preferred, err)
	}
	_, err = Candidates([]verbs.Device{locked, down}, nil, nil)
	if !errors.Is(err, fabric.ErrNotSupported) || !errors.Is(err, verbs.ErrPermission) ||
		!strings.Contains(err.Error(), "down: no port") {
		t.Errorf("no usable device: %v", err)
	}
	_, err = Candidates(nil, nil, nil)
	if !errors.Is(err, fabric.ErrNotSupported) || !errors.Is(err, verbs.ErrNoDevice) ||
		!strings.Contains(err.Error(), "soft-roce up") {
		t.Errorf("no device: %v", err)
	}
}
