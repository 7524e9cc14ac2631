package prom

import (
	"maps"
	"slices"
	"strconv"

	"github.com/ibrun/ibrun/hw"
)

// wordBytes is the unit of the data counters, by the InfiniBand specification.
const wordBytes = 4

// ports sends the metrics of the node's RDMA devices. A device that cannot be read does not affect the others.
func (c *collector) ports(p *metricWriter) {
	if c.node.Root == nil {
		return
	}
	devices, err := hw.ReadRDMA(c.node.Root)
	if err != nil {
		p.setValue(deviceProblems, 1, "")
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
			p.setValue(portUp, up, d.Name, number, port.Netdev, string(port.LinkLayer))
			p.setValue(portRate, float64(port.Rate)/8, d.Name, number)
			problems += c.counters(p, d.Name, port.Number)
		}
		p.setValue(deviceProblems, float64(problems), d.Name)
	}
}

// counters sends the counters of a port, and returns the number that could not be read.
func (c *collector) counters(p *metricWriter, device string, port int) (problems int) {
	read, err := hw.ReadCounters(c.node.Root, device, port)
	if err != nil {
		return 1
	}
	number := strconv.Itoa(port)
	all := map[string]uint64{}
	maps.Copy(all, read.HW)
	maps.Copy(all, read.Port) // takes precedence if a driver has a counter with a standard name
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch v := float64(all[name]); name {
		case "port_xmit_data":
			p.setValue(portSent, v*wordBytes, device, number)
		case "port_rcv_data":
			p.setValue(portReceived, v*wordBytes, device, number)
		default:
			p.setValue(portCounter, v, device, number, name)
		}
	}
	return len(read.Problems)
}
