package doctor

import (
	"fmt"
	"strings"
	"time"
)

// slowFactor is how many times longer than the fastest a ping may take before it is reported. Times within a good machine
// differ by a small factor.
const slowFactor = 20

// reachPorts checks the pings between the RDMA ports of this machine.
func reachPorts(h *Host) []Finding {
	if len(h.Pings) == 0 {
		switch {
		case !h.anyActive():
			return infoFinding("there is no active RDMA port")
		case !h.Live:
			return infoFinding("a captured tree cannot send: whether RDMA ports work is unknown")
		}
		return infoFinding("nothing was sent between RDMA ports")
	}
	var failed []string
	quickest, slowest := h.Pings[0], h.Pings[0]
	for _, p := range h.Pings {
		if p.Err != nil {
			failed = append(failed, fmt.Sprintf("%s to %s: %v", p.From, p.To, p.Err))
			continue
		}
		if quickest.Err != nil || p.Time < quickest.Time {
			quickest = p
		}
		if slowest.Err != nil || p.Time > slowest.Time {
			slowest = p
		}
	}
	matrix := latencyMatrix(h.Pings)
	switch {
	case len(failed) > 0:
		return newFinding(Error, fmt.Sprintf("%d of %d pings failed: %s\n%s", len(failed), len(h.Pings), strings.Join(failed,
			"; "), matrix),
			"messages between these ports do not arrive: a wrong address, route or VLAN, or a failed device",
			"show_gids; ip route get ADDRESS; rdma link show")
	case slowest.Time > slowFactor*quickest.Time:
		return newFinding(Info, fmt.Sprintf("a byte takes %v from %s to %s, but %v from %s to %s\n%s", quickest.Time,
			quickest.From, quickest.To,
			slowest.Time, slowest.From, slowest.To, matrix), "this path is congested or loses packets",
			"ibrun bench perftest")
	}
	return okFinding("all %d pings of one byte arrived, within %v to %v\n%s", len(h.Pings), quickest.Time, slowest.Time, matrix)
}

// latencyMatrix formats pings as a matrix of microseconds, with an x for each failed ping.
func latencyMatrix(pings []Ping) string {
	var names []string
	index := map[string]int{}
	for _, p := range pings {
		for _, name := range []string{p.From, p.To} {
			if _, known := index[name]; !known {
				index[name] = len(names)
				names = append(names, name)
			}
		}
	}
	cells := make([]string, len(names)*len(names))
	for _, p := range pings {
		cell := "x"
		if p.Err == nil {
			cell = fmt.Sprintf("%.1f", float64(p.Time)/float64(time.Microsecond))
		}
		cells[index[p.From]*len(names)+index[p.To]] = cell
	}
	width := 8
	for _, name := range names {
		width = max(width, len(name)+1)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s", width, "us")
	for _, name := range names {
		fmt.Fprintf(&b, "%*s", width, name)
	}
	for i, name := range names {
		fmt.Fprintf(&b, "\n%-*s", width, name)
		for j := range names {
			fmt.Fprintf(&b, "%*s", width, cells[i*len(names)+j])
		}
	}
	return b.String()
}

// forEachPeer runs a check for each host given on the command line.
func (h *Host) forEachPeer(check func(p Peer) []Finding) []Finding {
	if len(h.Peers) == 0 {
		return infoFinding("no other host was given")
	}
	var all []Finding
	for _, p := range h.Peers {
		all = append(all, check(p)...)
	}
	return all
}

// reachHosts checks whether hosts are reachable.
func reachHosts(h *Host) []Finding {
	return h.forEachPeer(func(p Peer) []Finding {
		switch {
		case p.ConnectErr == nil && p.ConnectTime == 0:
			return okFinding("%s is reachable by ssh", p.Name)
		case p.ConnectErr != nil:
			return newFinding(Error, fmt.Sprintf("%s is not reachable: %v", p.Name, p.ConnectErr), "no rank can be started there",
				"getent hosts "+p.Name+"; ping -c 1 "+p.Name)
		}
		return okFinding("%s accepts connections within %v", p.Name, p.ConnectTime.Round(time.Microsecond))
	})
}

// maxClockOffset is the largest clock offset at which logs of two hosts can still be compared.
const maxClockOffset = 100 * time.Millisecond

// reachClock checks the clock offsets of other hosts.
func reachClock(h *Host) []Finding {
	return h.forEachPeer(func(p Peer) []Finding {
		switch off := p.ClockOffset.Abs(); {
		case p.ConnectErr != nil || p.LoginErr != nil:
			return infoFinding("the clock of %s is unknown: the host could not be probed", p.Name)
		case off > maxClockOffset+p.ClockError:
			return newFinding(Warning, fmt.Sprintf("the clock of %s is %v off (±%v)", p.Name,
				p.ClockOffset.Round(time.Millisecond), p.ClockError.Round(time.Millisecond)),
				"times in logs and traces of the two hosts cannot be compared", "systemctl enable --now chrony   # on both")
		}
		return okFinding("the clock of %s is %v off (±%v)", p.Name, p.ClockOffset.Round(time.Millisecond),
			p.ClockError.Round(time.Millisecond))
	})
}
