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

// candidate is a port that a domain may use.
type candidate struct {
	device    string // as in Settings.Devices
	port      *hw.RDMAPort
	near      int  // how many of the allowed PUs are near the device
	preferred bool // is the first device of Transport.Near that works
	subnet    subnet
}

// candidates returns the ports that may be used: the preferred one first, then those with the most allowed PUs near them; among
// equals the fastest, then the first. The error says why no device can be used.
func candidates(devices []verbs.Device, allowed []int, preferred []string) ([]candidate, error) {
	var why []error
	var all []candidate
	for i := range devices {
		d := &devices[i]
		switch {
		case d.Err != nil:
			why = append(why, fmt.Errorf("%s: %w", d.Name, d.Err))
		case !hasActive(d, 0):
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
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.near, a.near), cmp.Compare(b.port.Rate, a.port.Rate))
	})
	for _, wanted := range preferred {
		i := slices.IndexFunc(all, func(c candidate) bool { return c.is(wanted) })
		if i < 0 {
			continue
		}
		c := all[i]
		c.preferred, c.device = true, wanted
		return slices.Insert(slices.Delete(all, i, i+1), 0, c), nil
	}
	return all, nil
}

// activePorts returns the active ports of a device. The first one has the name of the device alone.
func activePorts(d *verbs.Device, allowed []int) (ports []candidate) {
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
		ports = append(ports, candidate{device: name, port: p, near: near})
	}
	return ports
}

// is reports whether a name such as mlx5_0 or mlx5_0:2 means this port. A name without a port means the first active one.
func (c *candidate) is(wanted string) bool {
	device, port, err := splitPort(wanted)
	return err == nil && c.name() == device && (port == c.port.Number || port == 0 && c.device == device)
}

// maxSubnets is for how many subnets a process opens a device. Each one costs memory and a poll now and then.
const maxSubnets = 3

// onePerSubnet returns the first candidate of each subnet, at most maxSubnets. The first one is the best for this process alone.
// The others are chosen by rules that have the same result at every process, so that the processes of a job have a subnet in
// common if their nodes have.
func onePerSubnet(all []candidate) []candidate {
	var first []candidate
	for _, c := range all {
		if !slices.ContainsFunc(first, func(o candidate) bool { return o.subnet == c.subnet }) {
			first = append(first, c)
		}
	}
	slices.SortStableFunc(first[1:], func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.port.Rate, a.port.Rate), b.subnet.compare(a.subnet))
	})
	return first[:min(len(first), maxSubnets)]
}

// railsOf returns the devices of a domain of n rails: the chosen one, and the next ports of its subnet, each of another device if
// there is one. Fewer are returned if the subnet has no more.
func railsOf(chosen candidate, all []candidate, n int) []string {
	rails, devices := []string{chosen.device}, []string{chosen.name()}
	for _, again := range [...]bool{false, true} {
		for _, c := range all {
			if len(rails) == n {
				return rails
			}
			if c.subnet == chosen.subnet && !slices.Contains(rails, c.device) && slices.Contains(devices, c.name()) == again {
				rails, devices = append(rails, c.device), append(devices, c.name())
			}
		}
	}
	return rails
}

// name returns the name of the device without the port.
func (c *candidate) name() string {
	name, _, _ := strings.Cut(c.device, ":")
	return name
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
