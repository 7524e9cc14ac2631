package main

import (
	"slices"
	"strings"
	"testing"
)

// kindOf returns which line of the table of SECURITY.md a listener is, or why it is none.
func kindOf(listener, rendezvous string) string {
	if path, ok := strings.CutPrefix(listener, "unix "); ok {
		switch {
		case strings.Contains(path, "/ibrun/"):
			return "status"
		case strings.HasSuffix(path, "/metrics.sock"):
			return "metrics"
		}
		return "unknown: " + listener
	}
	addr, here := tcpAddress(listener)
	family, hexAddr, _ := strings.Cut(listener, " ")
	if host, _, _ := strings.Cut(hexAddr, ":"); strings.Trim(host, "0") == "" {
		return "on all addresses: " + listener
	}
	switch {
	case addr == rendezvous:
		return "rendezvous"
	case family == "tcp" && here, family == "tcp6":
		return "tcp"
	}
	return "unknown: " + listener
}

// listenerKinds returns the different kinds of listeners of an ibrun, and what listens in its ranks and its agent.
func (p *process) listenerKinds(rendezvous string) (kinds []string) {
	for _, l := range p.listeners() {
		kinds = append(kinds, kindOf(l, rendezvous))
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// TestListeners: a job listens where SECURITY.md says, and on all addresses nowhere. A job on one node that uses shared memory
// has no TCP port.
func TestListeners(t *testing.T) {
	socketDir(t)
	socket := t.TempDir() + "/metrics.sock"
	p := startJob(t, 2, "-n", "2", "--transport", "shm", "--metrics", socket, "rank", "checked", "100s")
	if got, want := p.listenerKinds(""), []string{"metrics", "status"}; !slices.Equal(got, want) {
		t.Errorf("one node, shared memory: %q, want %q", got, want)
	}
	p = startJob(t, 2, "-n", "2", "--transport", "tcp", "rank", "checked", "100s")
	if got, want := p.listenerKinds(""), []string{"status", "tcp"}; !slices.Equal(got, want) {
		t.Errorf("one node, TCP: %q, want %q", got, want)
	}
	ns := newNodes(t, 2)
	for k := range ns.n {
		ns.list[k] = startCommand(t, 0, ns.command(k, "-n", "2", "--transport", "tcp", "rank", "checked", "100s"))
	}
	for k, want := range [][]string{{"rendezvous", "status", "tcp"}, {"status", "tcp"}} {
		ns.list[k].ready(1)
		if got := ns.list[k].listenerKinds(ns.addr); !slices.Equal(got, want) {
			t.Errorf("node %d of 2: %q, want %q", k, got, want)
		}
		// The ports of ibrun itself: the rendezvous on node 0, and the port that shows that it lives on the other.
		own := ns.list[k].ownTCPPorts()
		if own != 1 {
			t.Errorf("node %d of 2: ibrun itself listens at %d TCP ports, want 1", k, own)
		}
	}
}
