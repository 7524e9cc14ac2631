package prom

import (
	"maps"
	"slices"
	"strconv"

	"github.com/ibrun/ibrun/hw"
)

// wordBytes is what the counters of data count, by the InfiniBand standard.
const wordBytes = 4

// ports writes the node's RDMA devices. One that cannot be read keeps none of the others from being shown.
func (c *collector) ports(p *put) {
	if c.node.Root == nil {
		return
	}
	devices, err := hw.ReadRDMA(c.node.Root)
	if err != nil {
		p.set(deviceProblems, 1, "")
		return
	}
	for i := range devices {
		d := &devices[i]
		problems := len(d.Problems)
		for _, port := range d.Ports {
			number := strconv.Itoa(port.Number)
			up := 0.0
			if port.State == hw.PortActive {
				up = 1
			}
			p.set(portUp, up, d.Name, number, port.Netdev, string(port.LinkLayer))
			p.set(portRate, float64(port.Rate)/8, d.Name, number)
			problems += c.counters(p, d.Name, port.Number)
		}
		p.set(deviceProblems, float64(problems), d.Name)
	}
}

// counters writes the counters of a port, and returns how many could not be read.
func (c *collector) counters(p *put, device string, port int) (problems int) {
	read, err := hw.ReadCounters(c.node.Root, device, port)
	if err != nil {
		return 1
	}
	number := strconv.Itoa(port)
	all := map[string]uint64{}
	maps.Copy(all, read.HW)
	maps.Copy(all, read.Port) // which counts where a driver has one of the standard's names, too
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch v := float64(all[name]); name {
		case "port_xmit_data":
			p.set(portSent, v*wordBytes, device, number)
		case "port_rcv_data":
			p.set(portReceived, v*wordBytes, device, number)
		default:
			p.set(portCounter, v, device, number, name)
		}
	}
	return len(read.Problems)
}
