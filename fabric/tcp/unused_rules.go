package tcp

import (
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"
)

// A rule may name what a host does not have. That is no error if another rule chooses something: all nodes of a job have the same
// list, and their interfaces may have different names. But the name may also be misspelt, and then the job uses another network
// than the user means, so each host says which rule it does not use, and why. Three sorts of rules may match nothing: an empty
// list, a pattern with *, which is written for what there may be, and a rule with ^, since what it excludes is not used anyway.

// unusedRules returns a line for each rule that names an interface or a range of addresses that this host does not have. up are
// the interfaces that are up, and down are the names of the others.
func unusedRules(rules []string, up []iface, down []string) (lines []string) {
	for _, rule := range rules {
		if strings.HasPrefix(rule, "^") || strings.ContainsAny(rule, `*?[\`) {
			continue
		}
		if why := unusedRule(rule, up, down); why != "" {
			lines = append(lines, fmt.Sprintf("%s is not used for TCP (IBRUN_TCP_INTERFACES): %s", rule, why))
		}
	}
	return lines
}

// unusedRule returns why a rule matches no address of this host, or "" if it matches one.
func unusedRule(rule string, up []iface, down []string) string {
	for _, i := range up {
		if slices.ContainsFunc(i.prefixes, func(p netip.Prefix) bool { return ruleCovers(rule, i.name, p.Addr()) }) {
			return ""
		}
	}
	is := func(name string) bool {
		ok, err := path.Match(rule, name)
		return err == nil && ok
	}
	switch {
	case strings.Contains(rule, "/"):
		return "no interface of this host that is up has an address in this network"
	case slices.ContainsFunc(up, func(i iface) bool { return is(i.name) }):
		return "the interface has no IP address"
	case slices.ContainsFunc(down, is):
		return "the interface is down"
	}
	names := slices.Clone(down)
	for _, i := range up {
		names = append(names, i.name)
	}
	return "this host has no network interface of this name, only " + someNames(names)
}

// someNames returns a list of names. Hosts with containers have hundreds of interfaces.
func someNames(names []string) string {
	const most = 8
	slices.Sort(names)
	if n := len(names) - most; n > 0 {
		return fmt.Sprintf("%s and %d others", strings.Join(names[:most], ", "), n)
	}
	return strings.Join(names, ", ")
}

// listInterfaces returns the network interfaces that are up, and the names of the others.
func listInterfaces() (up []iface, down []string, err error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, nil, fmt.Errorf("tcp: list network interfaces: %w", err)
	}
	for _, i := range list {
		if i.Flags&net.FlagUp == 0 {
			down = append(down, i.Name)
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return nil, nil, fmt.Errorf("tcp: list addresses of %s: %w", i.Name, err)
		}
		one := iface{name: i.Name, index: i.Index, loopback: i.Flags&net.FlagLoopback != 0}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				one.prefixes = append(one.prefixes, p)
			}
		}
		up = append(up, one)
	}
	return up, down, nil
}

// UnusedRules returns a line for each rule of Interfaces that names an interface or a network that this host does not have, or an
// interface that is down or has no address. Open passes these lines to Report. The error is that of Open if the rules choose
// nothing.
func (t *Transport) UnusedRules() ([]string, error) {
	_, unused, err := t.interfaces()
	return unused, err
}
