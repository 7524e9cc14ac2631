package doctor

import (
	"fmt"
	"strings"
	"time"
)

// slowFactor is how much longer than the quickest a ping may take before it is worth a word. Within a machine ways differ
// by a few times; a bad one by much more.
const slowFactor = 20

// reachPorts judges the pings between the RDMA ports of this machine, each to each.
func reachPorts(h *Host) []Finding {
	if len(h.Pings) == 0 {
		switch {
		case !h.anyActive():
			return hint("there is no active RDMA port to send from")
		case !h.Live:
			return hint("whether a byte arrives, a captured tree does not tell")
		}
		return hint("nothing was sent between RDMA ports")
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
	matrix := heatMap(h.Pings)
	switch {
	case len(failed) > 0:
		return finding(Error, fmt.Sprintf("%d of %d pings failed: %s\n%s", len(failed), len(h.Pings), strings.Join(failed,
			"; "), matrix),
			"messages between these ports would not arrive: a wrong address, route or VLAN, or the device failed",
			"show_gids; ip route get ADDRESS; rdma link show")
	case slowest.Time > slowFactor*quickest.Time:
		return finding(Info, fmt.Sprintf("a byte takes %v from %s to %s, but %v from %s to %s\n%s", quickest.Time,
			quickest.From, quickest.To,
			slowest.Time, slowest.From, slowest.To, matrix), "one of the ways is crowded or loses packets",
			"ibrun bench perftest")
	}
	return ok("all %d pings of one byte arrived, within %v to %v\n%s", len(h.Pings), quickest.Time, slowest.Time, matrix)
}

// heatMap writes pings as a matrix of microseconds, and an x where one failed.
func heatMap(pings []Ping) string {
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

// eachPeer runs a check for each host that was asked for.
func (h *Host) eachPeer(look func(p Peer) []Finding) []Finding {
	if len(h.Peers) == 0 {
		return finding(Info, "no other host was looked at", "", "ibrun doctor HOST...")
	}
	var all []Finding
	for _, p := range h.Peers {
		all = append(all, look(p)...)
	}
	return all
}

// reachHosts judges whether hosts answer.
func reachHosts(h *Host) []Finding {
	return h.eachPeer(func(p Peer) []Finding {
		switch {
		case p.Refused == nil && p.Connect == 0:
			return ok("%s answers to ssh", p.Name)
		case p.Refused != nil:
			return finding(Error, fmt.Sprintf("%s does not answer: %v", p.Name, p.Refused), "no rank can be started there",
				"getent hosts "+p.Name+"; ping -c 1 "+p.Name)
		}
		return ok("%s answers in %v", p.Name, p.Connect.Round(time.Microsecond))
	})
}

// wideSkew is how far clocks may be apart before logs of two hosts cannot be read side by side.
const wideSkew = 100 * time.Millisecond

// reachClock compares clocks.
func reachClock(h *Host) []Finding {
	return h.eachPeer(func(p Peer) []Finding {
		switch off := p.Skew.Abs(); {
		case p.Refused != nil || p.Login != nil:
			return hint("the clock of %s is unknown: it could not be asked", p.Name)
		case off > wideSkew+p.Round:
			return finding(Warning, fmt.Sprintf("the clock of %s is %v off, give or take %v", p.Name,
				p.Skew.Round(time.Millisecond), p.Round.Round(time.Millisecond)),
				"times in logs and traces of the two hosts do not fit", "systemctl enable --now chrony   # on both")
		}
		return ok("the clock of %s is %v off, give or take %v", p.Name, p.Skew.Round(time.Millisecond),
			p.Round.Round(time.Millisecond))
	})
}
