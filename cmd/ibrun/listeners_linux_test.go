package main

import (
	"slices"
	"strings"
	"testing"
)

// kindOf returns which line of the table of SECURITY.md a listener is, or why it is in no line.
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
	fifo := openFIFO(t).Name() // all run until the end of the test
	shm := startJob(t, 0, "-n", "2", "--transport", "shm", "--metrics", socket, "rank", "checked", fifo)
	tcp := startJob(t, 0, "-n", "2", "--transport", "tcp", "rank", "checked", fifo)
	ns := newNodes(t, 2)
	for k := range ns.n {
		ns.list[k] = startCommand(t, 0, ns.command(k, "-n", "2", "--transport", "tcp", "rank", "checked", fifo))
	}
	for _, job := range []struct {
		p     *process
		lines int
		name  string
		want  []string
		own   int // TCP ports of ibrun itself: the rendezvous on node 0, and what shows that it lives on the other
	}{
		{shm, 2, "one node, shared memory", []string{"metrics", "status"}, 0},
		{tcp, 2, "one node, TCP", []string{"status", "tcp"}, 0},
		{ns.list[0], 1, "node 0 of 2", []string{"rendezvous", "status", "tcp"}, 1},
		{ns.list[1], 1, "node 1 of 2", []string{"status", "tcp"}, 1},
	} {
		job.p.ready(job.lines)
		if got := job.p.listenerKinds(ns.addr); !slices.Equal(got, job.want) {
			t.Errorf("%s: %q, want %q", job.name, got, job.want)
		}
		if own := job.p.ownTCPPorts(); own != job.own {
			t.Errorf("%s: ibrun itself listens at %d TCP ports, want %d", job.name, own, job.own)
		}
	}
}
