package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// loggedIn is eachPeer for what only a host where commands run can tell.
func (h *Host) loggedIn(what string, look func(p Peer) []Finding) []Finding {
	return h.eachPeer(func(p Peer) []Finding {
		if p.Refused != nil || p.Login != nil {
			return hint("%s on %s is unknown: no command could be run there", what, p.Name)
		}
		return look(p)
	})
}

// sshLogin judges whether commands can be run on other hosts without a password.
func sshLogin(h *Host) []Finding {
	return h.eachPeer(func(p Peer) []Finding {
		switch {
		case p.Refused != nil:
			return hint("%s cannot be reached: %v", p.Name, p.Login)
		case p.Login != nil:
			return finding(Error, fmt.Sprintf("ssh %s: %v", p.Name, p.Login),
				"ranks are started there without anyone who could type a password",
				"ssh-copy-id "+p.Name+"; ssh "+p.Name+" true")
		}
		return ok("ssh %s needs no password", p.Name)
	})
}

// sshVersion judges whether the same ibrun is in the path of other hosts.
func sshVersion(h *Host) []Finding {
	return h.loggedIn("ibrun's version", func(p Peer) []Finding {
		switch p.Binary {
		case "":
			return finding(Error, "ssh "+p.Name+" ibrun version: not found", "an ssh command gets another PATH than a login",
				"scp $(command -v ibrun) "+p.Name+":/usr/local/bin/")
		case h.Binary:
			return ok("%s has the same ibrun: %s", p.Name, p.Binary)
		}
		return finding(Error, fmt.Sprintf("%s has %q, this host %q", p.Name, p.Binary, h.Binary),
			"nodes of one job have to understand each other",
			"scp $(command -v ibrun) "+p.Name+":/usr/local/bin/")
	})
}

// sshName looks whether this host's name leads other hosts here. Debian writes it to 127.0.1.1.
func sshName(h *Host) []Finding {
	text, err := h.text("etc/hosts")
	if err != nil {
		return unknown("the address of this host's name", err)
	}
	if h.Name == "" {
		return hint("the name of this host is unknown")
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
			return hint("the address of %s is unknown: /etc/hosts says %q", h.Name, words[0])
		case address.IsLoopback() && h.Name != "localhost":
			severity := Info
			if len(h.Peers) > 0 {
				severity = Warning
			}
			return finding(severity, fmt.Sprintf("/etc/hosts says that %s is %s", h.Name, address),
				"programs that tell peers this address send them to themselves",
				"put the address that other hosts use for "+h.Name+" in /etc/hosts")
		}
		return ok("/etc/hosts says that %s is %s", h.Name, address)
	}
	return ok("/etc/hosts does not redirect %s: its address is left to DNS", h.Name)
}

// sshPort judges whether other hosts can connect to a port here, as the nodes of a job do.
func sshPort(h *Host) []Finding {
	return h.loggedIn("whether this host can be reached", func(p Peer) []Finding {
		if !p.Back {
			return finding(Error, p.Name+" cannot connect to a port of this host", "a firewall keeps the nodes of a job apart",
				"firewall-cmd --zone=trusted --add-source=SUBNET   # or: nft list ruleset")
		}
		return ok("%s can connect to a port of this host", p.Name)
	})
}
