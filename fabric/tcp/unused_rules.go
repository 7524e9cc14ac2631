package tcp

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// A host may lack an interface or a network that a rule names. That is not an error if another rule chooses something: all nodes
// of a job have the same list, and their interfaces may have different names. But a misspelt name would make the job use another
// network than the user means. So each host reports the rules that it does not use, with the reason. Two sorts of rules may match
// nothing: patterns, which are written for interfaces that only some hosts have, and rules with ^, since they only exclude.

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

// unusedRule returns why a rule without wildcards matches no address of this host, or "" if it matches one.
func unusedRule(rule string, up []iface, down []string) string {
	for _, i := range up {
		if slices.ContainsFunc(i.prefixes, func(p netip.Prefix) bool { return ruleCovers(rule, i.name, p.Addr()) }) {
			return ""
		}
	}
	switch {
	case strings.Contains(rule, "/"):
		return "no interface of this host that is up has an address in this network"
	case slices.ContainsFunc(up, func(i iface) bool { return i.name == rule }):
		return "the interface has no IP address"
	case slices.Contains(down, rule):
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
