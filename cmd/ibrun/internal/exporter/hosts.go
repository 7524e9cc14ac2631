package exporter

import (
	"net"
	"net/netip"
	"os"
	"strings"
)

// hostNames are the names in the header Host for which requests are answered, in small letters. Without that check a page on the
// web could read the metrics with the browser of a user: it gives a name of its own the address of this host after it was loaded
// (DNS rebinding), and the browser then takes this server for the page's own. The header has that name.
type hostNames map[string]bool

// newHostNames returns the names of this host: localhost, what its kernel and the job (node) call it, and the host in address,
// with others. Those that begin with a dot are domains, in which this host has its short names.
func newHostNames(address, node string, others []string) hostNames {
	names := hostNames{}
	own := []string{node}                       // each is also known by its short name, which is that in the domain ""
	if host, err := os.Hostname(); err == nil { // without a name of its own the others remain
		own = append(own, host)
	}
	all := append([]string{"localhost"}, own...)
	if host, _, err := net.SplitHostPort(address); err == nil {
		all = append(all, host)
	}
	for _, other := range append([]string{""}, others...) {
		if other != "" && other[0] != '.' {
			all = append(all, other)
			continue
		}
		for _, name := range own {
			if short, _, _ := strings.Cut(name, "."); short != "" {
				all = append(all, short+other)
			}
		}
	}
	for _, name := range all {
		if name = canonicalHost(name); name != "" {
			names[name] = true
		}
	}
	return names
}

// allow reports whether a header Host is one of the names, or an address. A client that sends none is not a browser.
func (n hostNames) allow(header string) bool {
	host := header
	if name, _, err := net.SplitHostPort(header); err == nil {
		host = name
	}
	host = canonicalHost(host)
	if _, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")); err == nil {
		return true
	}
	return header == "" || n[host]
}

// canonicalHost returns the form of a name that is the same for all of its spellings.
func canonicalHost(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }
