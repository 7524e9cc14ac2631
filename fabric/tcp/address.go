package tcp

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/fabric"
)

// An address is where a peer listens, its best place first:
//
//	0   version   1 byte
//	1   places    1 byte, how many follow: family (4 or 6) 1 byte, port 2 bytes little-endian, IP address 4 or 16 bytes
const maxPlaces = 12 // keeps the address below the 256 bytes that the seam allows

func appendAddress(b []byte, places []netip.AddrPort) []byte {
	b = append(b, version, byte(len(places)))
	for _, p := range places {
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

// parseAddress is appendAddress undone.
func parseAddress(b []byte) ([]netip.AddrPort, error) {
	if len(b) < 2 || b[0] != version || b[1] == 0 || b[1] > maxPlaces {
		return nil, fmt.Errorf("%w: not an address: %x", fabric.ErrCorrupt, b)
	}
	n, b := int(b[1]), b[2:]
	places := make([]netip.AddrPort, 0, n)
	for range n {
		bytes := 0
		if len(b) > 0 {
			bytes = map[byte]int{4: 4, 6: 16}[b[0]]
		}
		if bytes == 0 || len(b) < 3+bytes {
			return nil, fmt.Errorf("%w: address that ends early", fabric.ErrCorrupt)
		}
		ip, _ := netip.AddrFromSlice(b[3 : 3+bytes])
		port := binary.LittleEndian.Uint16(b[1:])
		if port == 0 || ip.IsUnspecified() || ip.IsMulticast() || ip.Is4In6() {
			return nil, fmt.Errorf("%w: nobody listens at %v port %d", fabric.ErrCorrupt, ip, port)
		}
		places = append(places, netip.AddrPortFrom(ip, port))
		b = b[3+bytes:]
	}
	if len(b) != 0 {
		return nil, fmt.Errorf("%w: %d bytes behind an address", fabric.ErrCorrupt, len(b))
	}
	return places, nil
}

// iface is a network interface with the addresses on it that may be used.
type iface struct {
	name     string
	index    int
	loopback bool
	prefixes []netip.Prefix
}

// zoned gives an address the zone it needs to be bound or called through this interface.
func (i *iface) zoned(ip netip.Addr) netip.Addr {
	if ip.Is6() && ip.IsLinkLocalUnicast() {
		return ip.WithZone(strconv.Itoa(i.index))
	}
	return ip
}

// ParseInterfaces takes apart a list such as "eth*,10.1.0.0/16,^docker0" for Transport.Interfaces: names of network
// interfaces, where * stands for any characters, and ranges of addresses. Those with ^ in front are left out, whatever else
// chooses them. If one is named without ^, nothing else is taken; it may be a loopback or have link-local addresses, which are
// not taken otherwise. An empty list is nil. The list is a user's: IBRUN_TCP_INTERFACES of a job.
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

func checkRule(rule string) error {
	name := strings.TrimPrefix(rule, "^")
	if strings.Contains(name, "/") {
		if _, err := netip.ParsePrefix(name); err != nil {
			return fmt.Errorf("tcp: interfaces %q: %w", rule, err)
		}
		return nil
	}
	if _, err := path.Match(name, ""); err != nil || name == "" {
		return fmt.Errorf("tcp: interfaces %q is neither the name of an interface nor a range of addresses", rule)
	}
	return nil
}

// bridges are the names of interfaces that connect a machine with its own containers and guests: their addresses are the same on
// many machines and reach none of them.
var bridges = []string{"docker*", "br-*", "virbr*", "lxcbr*", "lxdbr*", "cni*", "podman*", "cilium_*"}

// named tells whether a rule, without its ^, covers an address of an interface.
func named(rule, name string, ip netip.Addr) bool {
	if p, err := netip.ParsePrefix(rule); err == nil {
		return p.Contains(ip)
	}
	ok, err := path.Match(rule, name)
	return err == nil && ok
}

// choose keeps the addresses that the rules choose.
func choose(all []iface, rules []string) []iface {
	only := slices.ContainsFunc(rules, func(r string) bool { return !strings.HasPrefix(r, "^") })
	keep := func(loopback bool) []iface {
		var kept []iface
		for _, i := range all {
			i.prefixes = slices.DeleteFunc(slices.Clone(i.prefixes), func(p netip.Prefix) bool {
				covers := func(r string) bool { return named(r, i.name, p.Addr()) }
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

// interfaces are those that are up and chosen by the rules.
func (t *Transport) interfaces() ([]iface, error) {
	for _, rule := range t.Interfaces {
		if err := checkRule(rule); err != nil {
			return nil, err
		}
	}
	list, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("tcp: list network interfaces: %w", err)
	}
	var all []iface
	for _, i := range list {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("tcp: list addresses of %s: %w", i.Name, err)
		}
		up := iface{name: i.Name, index: i.Index, loopback: i.Flags&net.FlagLoopback != 0}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				up.prefixes = append(up.prefixes, p)
			}
		}
		all = append(all, up)
	}
	chosen := choose(all, t.Interfaces)
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%w: no network interface is up and chosen by the rules %q", fabric.ErrNotSupported, t.Interfaces)
	}
	return chosen, nil
}

// errNoPlace says that a peer cannot be called, not even in vain.
var errNoPlace = errors.New("tcp: all its addresses are link-local, and no interface here is")

// calls lists where to call a peer that listens at places, most promising first: what lies in a subnet of ours before what does
// not, IPv4 before IPv6.
func calls(mine []iface, places []netip.AddrPort) ([]netip.AddrPort, error) {
	type call struct {
		at   netip.AddrPort
		rank int
	}
	var all []call
	for _, p := range places {
		rank := 2
		if p.Addr().Is6() {
			rank++
		}
		linkLocal := p.Addr().Is6() && p.Addr().IsLinkLocalUnicast()
		for _, i := range mine {
			if !slices.ContainsFunc(i.prefixes, func(x netip.Prefix) bool { return x.Contains(p.Addr()) }) {
				continue
			}
			if linkLocal {
				all = append(all, call{netip.AddrPortFrom(i.zoned(p.Addr()), p.Port()), rank - 2})
			} else {
				rank = min(rank, rank&1)
			}
		}
		if !linkLocal {
			all = append(all, call{p, rank})
		}
	}
	slices.SortStableFunc(all, func(a, b call) int { return cmp.Compare(a.rank, b.rank) })
	var at []netip.AddrPort
	for _, c := range all {
		at = append(at, c.at)
	}
	if len(at) == 0 {
		return nil, errNoPlace
	}
	return at, nil
}
