package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// forEachLogin is forEachPeer for hosts on which ssh could run a command.
func (h *Host) forEachLogin(what string, check func(p Peer) []Finding) []Finding {
	return h.forEachPeer(func(p Peer) []Finding {
		if p.ConnectErr != nil || p.LoginErr != nil {
			return infoFinding("%s on %s is unknown: no command could be run there", what, p.Name)
		}
		return check(p)
	})
}

// sshLogin checks whether ssh can run commands on other hosts without a password.
func sshLogin(h *Host) []Finding {
	return h.forEachPeer(func(p Peer) []Finding {
		switch {
		case p.ConnectErr != nil:
			return infoFinding("%s is not reachable: %v", p.Name, p.LoginErr)
		case p.LoginErr != nil:
			return newFinding(Error, fmt.Sprintf("ssh %s: %v", p.Name, p.LoginErr),
				"starting ranks over ssh must not require a password",
				"ssh-copy-id "+p.Name+"; ssh "+p.Name+" true")
		}
		return okFinding("ssh %s needs no password", p.Name)
	})
}

// sshVersion checks whether other hosts have the same ibrun in their PATH.
func sshVersion(h *Host) []Finding {
	return h.forEachLogin("ibrun's version", func(p Peer) []Finding {
		switch p.Version {
		case "":
			return newFinding(Error, "ssh "+p.Name+" ibrun version: not found",
				"the PATH of a command run by ssh differs from that of a login",
				"scp $(command -v ibrun) "+p.Name+":/usr/local/bin/")
		case h.Version:
			return okFinding("%s has the same ibrun: %s", p.Name, p.Version)
		}
		return newFinding(Error, fmt.Sprintf("%s has %q, this host %q", p.Name, p.Version, h.Version),
			"the nodes of a job must run the same version",
			"scp $(command -v ibrun) "+p.Name+":/usr/local/bin/")
	})
}

// sshName checks that /etc/hosts does not map this host's name to a loopback address. Debian maps it to 127.0.1.1.
func sshName(h *Host) []Finding {
	text, err := h.readText("etc/hosts")
	if err != nil {
		return unknownFinding("the address of this host's name", err)
	}
	if h.Name == "" {
		return infoFinding("the name of this host is unknown")
	}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) < 2 || !slices.Contains(words[1:], h.Name) {
			continue
		}
		address, err := netip.ParseAddr(words[0])
		switch {
		case err != nil:
			return infoFinding("the address of %s is unknown: /etc/hosts says %q", h.Name, words[0])
		case address.IsLoopback() && h.Name != "localhost":
			severity := Info
			if len(h.Peers) > 0 {
				severity = Warning
			}
			return newFinding(severity, fmt.Sprintf("/etc/hosts says that %s is %s", h.Name, address),
				"peers that receive this address connect to themselves (only node 0 of a job with --rendezvous listens at all addresses)",
				"write the address that other hosts use for "+h.Name+" to /etc/hosts")
		}
		return okFinding("/etc/hosts says that %s is %s", h.Name, address)
	}
	return okFinding("/etc/hosts has no entry for %s: its address comes from DNS", h.Name)
}

// sshPort checks whether other hosts can connect to a port of this host, as the nodes of a job do.
func sshPort(h *Host) []Finding {
	return h.forEachLogin("whether it can connect to this host", func(p Peer) []Finding {
		if !p.ConnectsBack {
			return newFinding(Error, p.Name+" cannot connect to a port of this host",
				"a firewall blocks connections between the nodes of a job",
				"firewall-cmd --zone=trusted --add-source=SUBNET   # or: nft list ruleset")
		}
		return okFinding("%s can connect to a port of this host", p.Name)
	})
}
