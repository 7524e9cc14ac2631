package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/ibrun/ibrun/hw"
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

// flowPFC checks whether priority flow control prevents that the network drops packets. The kernel reports it only over
// netlink; some drivers have files.
func flowPFC(h *Host) []Finding {
	return h.forEachRoCEPort(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		set := "mlnx_qos -i " + p.Netdev + " --pfc 0,0,0,1,0,0,0,0   # and the same priority on the switches"
		text, err := h.readText("sys/class/net/" + p.Netdev + "/qos/pfc")
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return newFinding(Info, "the priority flow control of "+p.Netdev+" is unknown: the driver has no file for it",
				"RoCE on a network that drops packets is slow", "to show it: dcb pfc show dev "+p.Netdev)
		case err != nil:
			return unknownFinding("priority flow control of "+p.Netdev, err)
		case !strings.Contains(text, "1"):
			return newFinding(Warning, p.Netdev+" has priority flow control on no priority",
				"RoCE on a network that drops packets is slow", set)
		}
		return okFinding("%s has priority flow control: %s", p.Netdev, strings.Join(strings.Fields(text), " "))
	})
}

// numPriorities is the number of priorities of Ethernet.
const numPriorities = 8

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
