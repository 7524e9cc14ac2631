package tcp

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/fabric"
)

// The address of a peer lists where it listens, in order of preference:
//
//	0   version     1 byte
//	1   number      1 byte: of the addresses that follow, each of them
//	                family (4 or 6) 1 byte, port 2 bytes little-endian, IP address 4 or 16 bytes
const (
	maxAddrs        = 12  // keeps the encoding within maxAddressBytes
	maxAddressBytes = 256 // that fabric.Domain.Addr may have
)

// appendAddress appends the encoded addresses to b.
func appendAddress(b []byte, addrs []netip.AddrPort) []byte {
	b = append(b, version, byte(len(addrs)))
	for _, p := range addrs {
		family := byte(6)
		if p.Addr().Is4() {
			family = 4
		}
		b = append(b, family)
		b = binary.LittleEndian.AppendUint16(b, p.Port())
		b = append(b, p.Addr().AsSlice()...)
	}
	return b
}

// parseAddress decodes the output of appendAddress.
func parseAddress(b []byte) ([]netip.AddrPort, error) {
	if len(b) < 2 || b[0] != version || b[1] == 0 || b[1] > maxAddrs {
		return nil, fmt.Errorf("%w: invalid peer address %x", fabric.ErrCorrupt, b)
	}
	n, b := int(b[1]), b[2:]
	addrs := make([]netip.AddrPort, 0, n)
	for range n {
		bytes := 0
		if len(b) > 0 {
			bytes = map[byte]int{4: 4, 6: 16}[b[0]]
		}
		if bytes == 0 || len(b) < 3+bytes {
			return nil, fmt.Errorf("%w: truncated peer address", fabric.ErrCorrupt)
		}
		ip, _ := netip.AddrFromSlice(b[3 : 3+bytes])
		port := binary.LittleEndian.Uint16(b[1:])
		if port == 0 || ip.IsUnspecified() || ip.IsMulticast() || ip.Is4In6() {
			return nil, fmt.Errorf("%w: peer address with invalid endpoint %v port %d", fabric.ErrCorrupt, ip, port)
		}
		addrs = append(addrs, netip.AddrPortFrom(ip, port))
		b = b[3+bytes:]
	}
	if len(b) != 0 {
		return nil, fmt.Errorf("%w: %d extra bytes behind a peer address", fabric.ErrCorrupt, len(b))
	}
	return addrs, nil
}

// iface is a network interface with those of its addresses that may be used.
type iface struct {
	name     string
	index    int
	loopback bool
	prefixes []netip.Prefix
}

// zoned returns ip with the zone that it needs for bind and connect through this interface.
func (i *iface) zoned(ip netip.Addr) netip.Addr {
	if ip.Is6() && ip.IsLinkLocalUnicast() {
		return ip.WithZone(strconv.Itoa(i.index))
	}
	return ip
}

// ParseInterfaces parses a list such as "eth*,10.1.0.0/16,^docker0" for Transport.Interfaces. Its elements are names of network
// interfaces, where * matches any characters, and ranges of addresses. Elements with ^ in front exclude what they match, whatever
// else matches it. If there is an element without ^, only what such elements match is used; that may be a loopback interface or a
// link-local address, which are not used otherwise. What does not exist on this host is left to [Transport.Open]. An empty list
// is nil. Users set the list in IBRUN_TCP_INTERFACES.
func ParseInterfaces(list string) ([]string, error) {
	var rules []string
	for rule := range strings.SplitSeq(list, ",") {
		if rule = strings.TrimSpace(rule); rule == "" {
			continue
		}
		if err := checkRule(rule); err != nil {
			return nil, err
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// checkRule returns an error unless a rule of Transport.Interfaces is valid.
func checkRule(rule string) error {
	name := strings.TrimPrefix(rule, "^")
	if strings.Contains(name, "/") {
		if _, err := netip.ParsePrefix(name); err != nil {
			return fmt.Errorf("tcp: interfaces %q: %w", rule, err)
		}
		return nil
	}
	if _, err := path.Match(name, ""); err != nil || name == "" {
		return fmt.Errorf("tcp: interfaces: %q is neither the name of an interface nor a range of addresses", rule)
	}
	return nil
}

// bridges are names of interfaces that connect a machine with its own containers and virtual machines. Their addresses are the
// same on many machines, and other machines cannot reach them.
var bridges = []string{"docker*", "br-*", "virbr*", "lxcbr*", "lxdbr*", "cni*", "podman*", "cilium_*"}

// ruleCovers reports whether a rule, without its ^, covers an address of an interface.
func ruleCovers(rule, name string, ip netip.Addr) bool {
	if p, err := netip.ParsePrefix(rule); err == nil {
		return p.Contains(ip)
	}
	ok, err := path.Match(rule, name)
	return err == nil && ok
}

// choose returns the interfaces with the addresses that the rules choose.
func choose(all []iface, rules []string) []iface {
	only := slices.ContainsFunc(rules, func(r string) bool { return !strings.HasPrefix(r, "^") })
	keep := func(loopback bool) []iface {
		var kept []iface
		for _, i := range all {
			i.prefixes = slices.DeleteFunc(slices.Clone(i.prefixes), func(p netip.Prefix) bool {
				covers := func(r string) bool { return ruleCovers(r, i.name, p.Addr()) }
				if slices.ContainsFunc(rules, func(r string) bool { r, out := strings.CutPrefix(r, "^"); return out && covers(r) }) {
					return true
				}
				if only {
					return !slices.ContainsFunc(rules, covers)
				}
				return i.loopback != loopback || p.Addr().IsLinkLocalUnicast() || slices.ContainsFunc(bridges, covers)
			})
			if len(i.prefixes) > 0 {
				kept = append(kept, i)
			}
		}
		return kept
	}
	if kept := keep(false); len(kept) > 0 {
		return kept
	}
	return keep(true)
}

// interfaces returns the network interfaces that are up and chosen by the rules, and the lines about rules that are not used.
func (t *Transport) interfaces() (chosen []iface, unused []string, err error) {
	for _, rule := range t.Interfaces {
		if err := checkRule(rule); err != nil {
			return nil, nil, err
		}
	}
	up, down, err := listInterfaces()
	if err != nil {
		return nil, nil, err
	}
	chosen = choose(up, t.Interfaces)
	if len(chosen) == 0 {
		return nil, nil, fmt.Errorf("%w: no network interface that is up matches the rules %q", fabric.ErrNotSupported, t.Interfaces)
	}
	return chosen, unusedRules(t.Interfaces, up, down), nil
}

// errNoAddress says that there is no address of a peer to try.
var errNoAddress = errors.New("tcp: all addresses of the peer are link-local, and no chosen interface here is")

// dialOrder returns the addresses to connect to of a peer that listens at addrs, the most promising first: addresses in a subnet
// of this machine before others, IPv4 before IPv6.
func dialOrder(ifaces []iface, addrs []netip.AddrPort) ([]netip.AddrPort, error) {
	type candidate struct {
		at   netip.AddrPort
		rank int
	}
	var all []candidate
	for _, p := range addrs {
		rank := 2
		if p.Addr().Is6() {
			rank++
		}
		linkLocal := p.Addr().Is6() && p.Addr().IsLinkLocalUnicast()
		for _, i := range ifaces {
			if !slices.ContainsFunc(i.prefixes, func(x netip.Prefix) bool { return x.Contains(p.Addr()) }) {
				continue
			}
			if linkLocal {
				all = append(all, candidate{netip.AddrPortFrom(i.zoned(p.Addr()), p.Port()), rank - 2})
			} else {
				rank = min(rank, rank&1)
			}
		}
		if !linkLocal {
			all = append(all, candidate{p, rank})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.rank, b.rank) })
	var at []netip.AddrPort
	for _, c := range all {
		at = append(at, c.at)
	}
	if len(at) == 0 {
		return nil, errNoAddress
	}
	return at, nil
}
