package doctor

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestVerdict: the verdict says whether jobs work. What is wrong with RDMA does not change that. What is wrong with TCP does, but
// not for ranks that share memory.
func TestVerdict(t *testing.T) {
	alone := func(h *Host) { h.Peers = nil }
	for name, c := range map[string]struct {
		change  func(h *Host)
		jobs    string
		summary string
		code    int
	}{
		"healthy":        {func(*Host) {}, JobsWork, "this machine and the hosts work; RDMA: mlx5_0/1", 0},
		"alone":          {alone, JobsWork, "jobs on this machine work; RDMA: mlx5_0/1", 0},
		"no device":      {func(h *Host) { h.Peers, h.Top.RDMA = nil, nil }, JobsWork, "machine work; RDMA: no device", 0},
		"captured":       {func(h *Host) { h.Live = false }, JobsUnknown, "on a captured machine is unknown; RDMA: ", 0},
		"no active port": {func(h *Host) { h.Peers, h.port().State = nil, "DOWN" }, JobsWork, "RDMA: no port", 0},
		"no address": {both(refused, func(h *Host) { h.port().GIDs = nil }), JobsWork,
			"RDMA: no port that ibrun can use (verbs.use, gid.choice)", 0},
		"unlisted driver": {unlisted, JobsWork, "work; RDMA: mlx5_0/1, with errors (verbs.library)", 0},
		"unlisted driver that refuses": {both(unlisted, refused), JobsWork,
			"RDMA: no port that ibrun can use (verbs.library, verbs.use)", 0},
		"by settings": {func(h *Host) { clear(h.Refused) }, JobsWork, "RDMA: no port that ibrun can use", 0},
		"unreachable": {func(h *Host) { h.Peers[0].ConnectErr = errors.New("no") }, JobsFail,
			"and the hosts do not work: reach.hosts", 1},
		"another version": {func(h *Host) { h.Peers[0].Version = "other" }, JobsFail, "do not work: ssh.version; RDMA: mlx5_0/1", 1},
		"settings": {func(h *Host) { h.Getenv = lookup([]string{"IBRUN_RDMA_TIMEOUT=many"}) }, JobsFail,
			"do not work: settings.valid", 1},
		"no interface":        {noInterface, JobsFail, "do not work: settings.netdev", 1},
		"alone, no interface": {both(alone, noInterface), JobsWork, "jobs on this machine work; RDMA: mlx5_0/1", 0},
		"alone, no interface, shared memory": {both(alone, noInterface, env("IBRUN_TRANSPORT", "shm,tcp")), JobsWork,
			"jobs on this machine work", 0},
		"alone, no interface, no shared memory": {both(alone, noInterface, env("IBRUN_TRANSPORT", "rdma,tcp")), JobsFail,
			"jobs on this machine do not work: settings.netdev", 1},
		"alone, no transport": {both(alone, noInterface, env("IBRUN_TRANSPORT", "bogus")), JobsFail,
			"jobs on this machine do not work: settings.valid; ", 1},
	} {
		h := healthy()
		c.change(h)
		r := RunChecks(h)
		if r.Verdict.Jobs != c.jobs || !strings.Contains(r.Verdict.Summary, c.summary) || r.ExitCode() != c.code {
			t.Errorf("%s: %+v, exit code %d", name, r.Verdict, r.ExitCode())
		}
	}
}

// TestQuietText: without --all the text has no finding that asks for nothing, and a machine without RDMA is fine.
func TestQuietText(t *testing.T) {
	h := healthy()
	h.Peers, h.Top.RDMA = nil, nil
	var b bytes.Buffer
	if err := RunChecks(h).Text(&b, false); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if lines[0] != "jobs on this machine work; RDMA: no device" || len(lines) != 2 ||
		!strings.HasPrefix(lines[1], "0 errors, 0 warnings, 0 hints; ") {
		t.Errorf("got\n%s", b.String())
	}
}
