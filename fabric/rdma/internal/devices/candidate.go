package devices

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs"
)

// Ports that are not active, and those of devices that cannot be used, are excluded here. Those
// that lack what the user demands are excluded later, in choice.go. The launcher has its own list of
// ports that may be used, hw.FabricCandidates, from which it assigns ports to ranks.

// Candidate is a port that a domain may use.
type Candidate struct {
	Device    string // mlx5_0, or mlx5_0:2 if it is not the first active port of the device
	Port      *hw.RDMAPort
	near      int    // how many of the allowed PUs are near the device
	preferred bool   // is the first of the preferred devices that works
	subnet    subnet // zero if there is nothing to compare
}

// Candidates returns the ports that may be used: the preferred one first, then those with the most
// allowed PUs near them; among equals the fastest, then the first. The error says why no device can
// be used.
func Candidates(devices []verbs.Device, allowed []int, preferred []string) ([]Candidate, error) {
	var why []error
	var all []Candidate
	for i := range devices {
		d := &devices[i]
		switch {
		case d.Err != nil:
			why = append(why, fmt.Errorf("%s: %w", d.Name, d.Err))
		case !hasActive(d):
			why = append(why, fmt.Errorf("%s: no port is active; is the link up?", d.Name))
		default:
			all = append(all, activePorts(d, allowed)...)
		}
	}
	if len(all) == 0 {
		if len(why) == 0 {
			why = append(why, &verbs.Error{Op: "open", Kind: verbs.ErrNoDevice,
				Detail: "no RDMA device found; `ibrun soft-roce up NETDEV` creates a software one"})
		}
		return nil, fmt.Errorf("fabric/rdma: %w: %w", fabric.ErrNotSupported, errors.Join(why...))
	}
	slices.SortStableFunc(all, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.near, a.near), cmp.Compare(b.Port.Rate, a.Port.Rate))
	})
	for _, wanted := range preferred {
		i := slices.IndexFunc(all, func(c Candidate) bool { return c.Is(wanted) })
		if i < 0 {
			continue
		}
		c := all[i]
		c.preferred, c.Device = true, wanted
		return slices.Insert(slices.Delete(all, i, i+1), 0, c), nil
	}
	return all, nil
}

// hasActive reports whether a port of the device is active.
func hasActive(d *verbs.Device) bool {
	return slices.ContainsFunc(d.Ports, func(p hw.RDMAPort) bool { return p.State == hw.PortActive })
}

// activePorts returns the active ports of a device. The first one has the name of the device alone.
func activePorts(d *verbs.Device, allowed []int) (ports []Candidate) {
	near := 0
	for _, pu := range allowed {
		if slices.Contains(d.LocalPUs, pu) {
			near++
		}
	}
	for i := range d.Ports {
		p := &d.Ports[i]
		if p.State != hw.PortActive {
			continue
		}
		name := d.Name
		if len(ports) > 0 {
			name += ":" + strconv.Itoa(p.Number)
		}
		ports = append(ports, Candidate{Device: name, Port: p, near: near})
	}
	return ports
}

// Is reports whether a name such as mlx5_0 or mlx5_0:2 means this port. A name without a port means
// the first active one.
func (c *Candidate) Is(wanted string) bool {
	device, port, err := SplitPort(wanted)
	return err == nil && c.Name() == device && (port == c.Port.Number || port == 0 && c.Device == device)
}

// Name returns the name of the device without the port.
func (c *Candidate) Name() string {
	name, _, _ := strings.Cut(c.Device, ":")
	return name
}

// Link returns the properties that other processes compare. The zero Candidate means that the user
// has named the devices.
func (c *Candidate) Link() cm.Link {
	if c.Port == nil {
		return cm.Link{Preferred: true, Near: true}
	}
	l := cm.Link{Rate: uint32(min(c.Port.Rate/1e6, 1<<32-1)), Preferred: c.preferred, Near: c.near > 0}
	if p := c.subnet.prefix; p.IsValid() && c.Port.LinkLayer != hw.LinkInfiniBand {
		l.PrefixBits = uint8(p.Bits())
		if p.Addr().Is4() {
			l.PrefixBits += 128 - 32
		}
	}
	return l
}

// SplitPort splits mlx5_0:2 into the name of the device and the number of the port. Without a
// number, the port is 0, which means the first active one.
func SplitPort(device string) (name string, port int, err error) {
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
