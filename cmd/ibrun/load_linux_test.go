package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestLoadOfPMI: two nodes exchange 100 KB of every rank, more than the sockets between ibrun and its agents can hold.
func TestLoadOfPMI(t *testing.T) {
	t.Parallel()
	newNodes(t, 2).start(0, "-n", "32", "rank", "pmi-load", "100").wantCode(0, "")
}

// slowGo is a go command that takes some seconds. The program that it builds is the one of these tests.
const slowGo = `#!/bin/sh
while [ "$1" != -o ]; do shift; done
sleep "$SLOW"
cp "$RANK" "$2"
`

// TestLoadWhileBuilding: node 0 is still building when the ranks of node 1 send more than the connection between the nodes can
// hold. It reads nevertheless, so that node 1 does not take it for lost.
func TestLoadWhileBuilding(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rank, err := exec.LookPath("rank")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"bin/go": slowGo, "rank/main.go": "package main\n"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ns := newNodes(t, 2)
	for k, slow := range []string{"2.5", "0"} {
		// The ranks of node 1 put 10 MB.
		cmd := ns.command(k, "--heartbeat", "1s", "-n", "32", filepath.Join(dir, "rank"), "pmi-load", "700")
		cmd.Env = []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "RANK=" + rank, "SLOW=" + slow,
			"XDG_CACHE_HOME=" + filepath.Join(dir, "cache", slow)}
		ns.list[k] = startCommand(t, 0, cmd)
	}
	ns.wantCode(0, "")
}
