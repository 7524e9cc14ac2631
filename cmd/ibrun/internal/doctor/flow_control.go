package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/tunables"
)

// forEachRoCEPort runs a check for each active RoCE port, except those of Soft-RoCE, which has no flow control.
func (h *Host) forEachRoCEPort(check func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding) []Finding {
	var all []Finding
	for i := range h.Top.RDMA {
		d := &h.Top.RDMA[i]
		for j := range d.Ports {
			if p := &d.Ports[j]; !d.OtherNetns && d.Provider != "rxe" && p.LinkLayer == hw.LinkEthernet && p.State == hw.PortActive {
				all = append(all, check(d, p)...)
			}
		}
	}
	if all == nil {
		return infoFinding("there is no active RoCE hardware")
	}
	return all
}

// flowControlOf returns the priority flow control of a port's interface: from a file that some drivers have, or else from the
// kernel. A bond has what all its members have.
func (h *Host) flowControlOf(netdev string) (f flowControl, found bool, err error) {
	members := []string{netdev}
	for _, n := range h.Top.Netdevs {
		if n.Master == netdev && netdev != "" {
			members = append(members, n.Name)
		}
	}
	for _, name := range members {
		one, has, err := h.memberFlowControl(name)
		switch {
		case err != nil:
			return f, false, err
		case has && found:
			f.lossless &= one.lossless
		case has:
			f, found = one, true
		}
	}
	return f, found, nil
}

// memberFlowControl returns the priority flow control of an interface that is not a bond.
func (h *Host) memberFlowControl(netdev string) (f flowControl, found bool, err error) {
	if h.FlowControl != nil {
		if f, found, err = h.FlowControl(netdev); found || err != nil {
			return f, found, err
		}
	}
	text, err := h.readText("sys/class/net/" + netdev + "/qos/pfc")
	if errors.Is(err, fs.ErrNotExist) {
		return f, false, nil
	}
	for p, word := range strings.Fields(text) {
		if p < numPriorities && word == "1" {
			f.lossless |= 1 << p
		}
	}
	return f, err == nil, err
}

// flowPFC checks whether priority flow control (PFC) prevents that the network drops packets, and whether the packets of ibrun
// have a priority that it holds for.
func flowPFC(h *Host) []Finding {
	class, _, err := tunables.RDMATrafficClass.FromEnv(h.Getenv)
	level, _, errLevel := tunables.RDMAServiceLevel.FromEnv(h.Getenv)
	if err := cmp.Or(err, errLevel); err != nil {
		return infoFinding("the traffic class is unknown: %v", err) // reported by the check of settings
	}
	return h.forEachRoCEPort(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		f, found, err := h.flowControlOf(p.Netdev)
		switch {
		case err != nil:
			return unknownFinding("priority flow control of "+p.Netdev, err)
		case !found:
			return infoFinding("%s reports no priority flow control", p.Netdev)
		case !h.Live && f.lossless != 0: // a captured tree does not contain the environment
			return okFinding("%s has priority flow control on priority %s", p.Netdev, f)
		}
		return f.compare(p.Netdev, class, level)
	})
}

// compare compares the priorities that have PFC with the traffic class and the service level of connections. On RoCE the latter
// is the priority in VLAN tags.
func (f flowControl) compare(netdev string, class, level int) []Finding {
	variable := tunables.RDMATrafficClass.Variable
	chosen := fmt.Sprintf("%s=%d", variable, class)
	if class == 0 && level != 0 {
		chosen = fmt.Sprintf("%s=%d", tunables.RDMAServiceLevel.Variable, level)
	}
	const dropped = "RoCE on a network that drops packets is slow"
	enable := "dcb pfc set dev " + netdev + " prio-pfc 3:on   # or mlnx_qos; and the same priority on the switches"
	priority, mapped := f.dscp[uint8(class>>2)]
	switch {
	case f.lossless == 0 && class == 0 && level == 0:
		return newFinding(Warning, netdev+" has priority flow control on no priority", dropped, enable)
	case f.lossless == 0:
		return newFinding(Warning, fmt.Sprintf("%s, but %s has priority flow control on no priority", chosen, netdev),
			dropped+", also with a traffic class", enable)
	case class == 0 && level == 0 && f.has(0):
		return okFinding("%s has priority flow control on priority %s, and the traffic class is 0", netdev, f)
	case class == 0 && level == 0:
		return newFinding(Warning, fmt.Sprintf("%s has priority flow control on priority %s, but the traffic class is 0, the default",
			netdev, f), "packets of traffic class 0 have priority 0, for which the network may drop them",
			fmt.Sprintf("export %s=%d   # on all nodes, if the switches map code point %d to that priority", variable,
				f.trafficClass(), f.trafficClass()>>2))
	case class != 0 && len(f.dscp) > 0 && !f.has(priority):
		why := fmt.Sprintf("%s maps code point %d to priority %d", netdev, class>>2, priority)
		if !mapped {
			why = fmt.Sprintf("%s maps code point %d to no priority, so it has priority 0", netdev, class>>2)
		}
		return newFinding(Warning, fmt.Sprintf("%s, but %s has priority flow control on priority %s only", chosen, netdev, f),
			why+", for which the network may drop packets", fmt.Sprintf("export %s=%d   # on all nodes", variable, f.trafficClass()))
	}
	return okFinding("%s, and %s has priority flow control on priority %s", chosen, netdev, f)
}

// flowECN checks whether senders slow down when switches mark packets because their queues grow.
func flowECN(h *Host) []Finding {
	return h.forEachRoCEPort(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		var on, off []string
		for _, role := range []string{"roce_np", "roce_rp"} { // the notification point and the reaction point
			for priority := range numPriorities {
				text, err := h.readText(fmt.Sprintf("sys/class/net/%s/ecn/%s/enable/%d", p.Netdev, role, priority))
				word := fmt.Sprintf("%s/%d", role, priority)
				switch {
				case err != nil: // handled below: most drivers have none of the files
				case text == "1":
					on = append(on, word)
				default:
					off = append(off, word)
				}
			}
		}
		switch {
		case len(on)+len(off) == 0:
			return newFinding(Info, "the congestion control of "+p.Netdev+" is unknown: the driver has no files for it",
				"without congestion control a full switch port blocks its neighbours",
				"to show it: cma_roce_tos; ethtool -S "+p.Netdev+" | grep cnp")
		case len(off) > 0:
			return newFinding(Warning, p.Netdev+" does not react to congestion: disabled are "+strings.Join(off, ", "),
				"a full switch port blocks its neighbours",
				"echo 1 > /sys/class/net/"+p.Netdev+"/ecn/"+strings.Replace(off[0], "/", "/enable/", 1))
		}
		return okFinding("%s detects and reacts to congestion: %s", p.Netdev, strings.Join(on, ", "))
	})
}

// lossCounters returns counters that do not increase on a good network, with the meaning of an increase.
func lossCounters() map[string]string {
	return map[string]string{
		"local_ack_timeout_err":          "packets or acknowledgements were lost",
		"packet_seq_err":                 "incoming packets were lost",
		"out_of_sequence":                "packets arrived out of order or were lost",
		"symbol_error":                   "the cable or its plug is bad",
		"link_downed":                    "the link went down",
		"port_rcv_errors":                "packets arrived corrupted",
		"port_xmit_discards":             "the network did not accept packets in time",
		"rnr_nak_retry_err":              "receivers had no buffer posted for too long",
		"req_transport_retries_exceeded": "connections failed after too many retransmissions",
		"rx_icrc_encapsulated":           "packets arrived corrupted",
	}
}

// flowLoss checks counters of ports for lost packets.
func flowLoss(h *Host) []Finding {
	return h.forEachPort(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		name := portName(d, p)
		c, err := hw.ReadCounters(h.Root, d.Name, p.Number)
		if err != nil {
			return unknownFinding("the number of packets that "+name+" lost", err)
		}
		meaning := lossCounters()
		seen := 0
		var words []string
		why := ""
		for _, group := range []map[string]uint64{c.Port, c.HW} {
			for _, counter := range sortedKeys(meaning) {
				n, found := group[counter]
				if found {
					seen++
				}
				if n > 0 {
					words = append(words, fmt.Sprintf("%s=%d", counter, n))
					why = meaning[counter]
				}
			}
		}
		switch {
		case len(words) > 0:
			return newFinding(Info, name+" since the driver was loaded: "+strings.Join(words, " "),
				why+"; lost packets are retransmitted after a timeout",
				"check whether it increases: grep . /sys/class/infiniband/"+d.Name+"/ports/*/*counters/*")
		case seen == 0:
			return infoFinding("%s has no counters for lost packets", name)
		}
		return okFinding("%s lost no packets: %d counters are 0", name, seen)
	})
}
