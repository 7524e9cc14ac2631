package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

// eachRoCE runs a check for each active RoCE port whose hardware may lose packets: Soft-RoCE has no flow control.
func (h *Host) eachRoCE(look func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding) []Finding {
	var all []Finding
	for i := range h.Top.RDMA {
		d := &h.Top.RDMA[i]
		for j := range d.Ports {
			if p := &d.Ports[j]; !d.OtherNetns && d.Provider != "rxe" && p.LinkLayer == hw.LinkEthernet && p.State == hw.PortActive {
				all = append(all, look(d, p)...)
			}
		}
	}
	if all == nil {
		return hint("there is no active RoCE hardware to look at")
	}
	return all
}

// flowPFC looks whether the network stops senders before it drops packets. The kernel tells it over netlink only, except
// where the vendor's driver has files.
func flowPFC(h *Host) []Finding {
	return h.eachRoCE(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		set := "mlnx_qos -i " + p.Netdev + " --pfc 0,0,0,1,0,0,0,0   # and the same priority on the switches"
		text, err := h.text("sys/class/net/" + p.Netdev + "/qos/pfc")
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return finding(Info, "whether "+p.Netdev+" has priority flow control is unknown: the driver has no file for it",
				"RoCE on a network that drops packets is slow", "to see it: dcb pfc show dev "+p.Netdev)
		case err != nil:
			return unknown("priority flow control of "+p.Netdev, err)
		case !strings.Contains(text, "1"):
			return finding(Warning, p.Netdev+" has priority flow control on no priority",
				"RoCE on a network that drops packets is slow", set)
		}
		return ok("%s has priority flow control: %s", p.Netdev, strings.Join(strings.Fields(text), " "))
	})
}

// priorities is how many of them Ethernet has.
const priorities = 8

// flowECN looks whether senders slow down when switches say that queues grow.
func flowECN(h *Host) []Finding {
	return h.eachRoCE(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		var on, off []string
		for _, role := range []string{"roce_np", "roce_rp"} { // who notices, and who reacts
			for priority := range priorities {
				text, err := h.text(fmt.Sprintf("sys/class/net/%s/ecn/%s/enable/%d", p.Netdev, role, priority))
				word := fmt.Sprintf("%s/%d", role, priority)
				switch {
				case err != nil: // judged below: most drivers have none of the files
				case text == "1":
					on = append(on, word)
				default:
					off = append(off, word)
				}
			}
		}
		switch {
		case len(on)+len(off) == 0:
			return finding(Info, "whether "+p.Netdev+" reacts to congestion is unknown: the driver has no files for it",
				"without it a full switch port stops its neighbours",
				"to see it: cma_roce_tos; ethtool -S "+p.Netdev+" | grep cnp")
		case len(off) > 0:
			return finding(Warning, p.Netdev+" does not react to congestion: off are "+strings.Join(off, ", "),
				"a full switch port stops its neighbours",
				"echo 1 > /sys/class/net/"+p.Netdev+"/ecn/"+strings.Replace(off[0], "/", "/enable/", 1))
		}
		return ok("%s notices and reacts to congestion: %s", p.Netdev, strings.Join(on, ", "))
	})
}

// lossCounters are counters that stand still on a good network, with what it means when they do not.
func lossCounters() map[string]string {
	return map[string]string{
		"local_ack_timeout_err":          "packets or acknowledgements were lost on the way",
		"packet_seq_err":                 "packets were lost on the way here",
		"out_of_sequence":                "packets arrived out of order or not at all",
		"symbol_error":                   "the cable or its plug is bad",
		"link_downed":                    "the link went down",
		"port_rcv_errors":                "packets arrived damaged",
		"port_xmit_discards":             "the network did not take packets in time",
		"rnr_nak_retry_err":              "receivers had no buffer posted for too long",
		"req_transport_retries_exceeded": "connections were given up",
		"rx_icrc_encapsulated":           "packets arrived damaged",
	}
}

// flowLoss looks at counters of ports for signs that packets get lost.
func flowLoss(h *Host) []Finding {
	return h.eachPort(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		name := portName(d, p)
		c, err := hw.ReadCounters(h.Root, d.Name, p.Number)
		if err != nil {
			return unknown("whether "+name+" lost packets", err)
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
			return finding(Info, name+" since it was started: "+strings.Join(words, " "),
				why+"; what is lost is sent again after a wait",
				"watch whether it grows: grep . /sys/class/infiniband/"+d.Name+"/ports/*/*counters/*")
		case seen == 0:
			return hint("%s has no counters of lost packets", name)
		}
		return ok("%s lost no packets: %d counters are 0", name, seen)
	})
}
