package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs"
)

// chooseDevices returns the devices to use: the named ones if there are any; otherwise the first preferred device that works;
// otherwise the nearest one that works.
func chooseDevices(named, preferred []string) ([]string, error) {
	if len(named) > 0 {
		return named, nil
	}
	devices, err := verbs.Devices()
	if err != nil {
		return nil, fmt.Errorf("fabric/rdma: %w: %w", fabric.ErrNotSupported, err)
	}
	allowed, err := hw.Affinity()
	if err != nil {
		allowed = nil // all devices count as equally near
	}
	best, err := nearestDevice(devices, allowed, preferred)
	if err != nil {
		return nil, err
	}
	return []string{best}, nil
}

// nearestDevice returns the first preferred device that works. If there is none, it returns the device with the most allowed
// PUs near it; among equals the fastest, then the first.
func nearestDevice(devices []verbs.Device, allowed []int, preferred []string) (string, error) {
	var why []error
	var usable []verbs.Device
	for _, d := range devices {
		switch {
		case d.Err != nil:
			why = append(why, fmt.Errorf("%s: %w", d.Name, d.Err))
		case !hasActive(&d, 0):
			why = append(why, fmt.Errorf("%s: no port is active; is the link up?", d.Name))
		default:
			usable = append(usable, d)
		}
	}
	if len(usable) == 0 {
		if len(why) == 0 {
			why = append(why, &verbs.Error{Op: "open", Kind: verbs.ErrNoDevice,
				Detail: "no RDMA device found; `ibrun soft-roce up NETDEV` creates a software one"})
		}
		return "", fmt.Errorf("fabric/rdma: %w: %w", fabric.ErrNotSupported, errors.Join(why...))
	}
	for _, wanted := range preferred {
		name, port, err := splitPort(wanted)
		if err == nil && slices.ContainsFunc(usable, func(d verbs.Device) bool { return d.Name == name && hasActive(&d, port) }) {
			return wanted, nil
		}
	}
	near := func(d *verbs.Device) (n int) {
		for _, pu := range allowed {
			if slices.Contains(d.LocalPUs, pu) {
				n++
			}
		}
		return n
	}
	rate := func(d *verbs.Device) (r uint64) {
		for _, p := range d.Ports {
			r = max(r, p.Rate)
		}
		return r
	}
	slices.SortStableFunc(usable, func(a, b verbs.Device) int {
		return cmp.Or(cmp.Compare(near(&b), near(&a)), cmp.Compare(rate(&b), rate(&a)))
	})
	return usable[0].Name, nil
}

// hasActive reports whether a port of the device is active. Port 0 means any port.
func hasActive(d *verbs.Device, port int) bool {
	return slices.ContainsFunc(d.Ports, func(p hw.RDMAPort) bool {
		return p.State == hw.PortActive && (port == 0 || p.Number == port)
	})
}

// splitPort splits mlx5_0:2 into the name of the device and the number of the port. Without a number, the port is 0, which
// means the first active one.
func splitPort(device string) (name string, port int, err error) {
	name, digits, found := strings.Cut(device, ":")
	if found {
		port, err = strconv.Atoi(digits)
	}
	if err != nil || name == "" || found && (port < 1 || port > maxPort) {
		return "", 0, fmt.Errorf("fabric/rdma: %q is not a device: want NAME or NAME:PORT, such as mlx5_0 or mlx5_0:2", device)
	}
	return name, port, nil
}

// maxPort is the highest possible port number.
const maxPort = 255
