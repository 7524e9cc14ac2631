package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLoadOfPMI: two nodes exchange 900 KB of every rank, more than the sockets between ibrun and its agents can hold.
func TestLoadOfPMI(t *testing.T) {
	t.Parallel()
	newNodes(t, 2).start(0, "-n", "2", "rank", "pmi-load", "1000").wantCode(0, "")
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
	ranks := "rank 0=n0 slot=0\n"
	for r := range 8 {
		ranks += fmt.Sprintf("rank %d=n1 slot=0\n", r+1)
	}
	for name, text := range map[string]string{"bin/go": slowGo, "rank/main.go": "package main\n", "ranks": ranks} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	wrong := ""
	for _, heartbeat := range []time.Duration{2 * time.Second, 6 * time.Second, 18 * time.Second} { // the machine may be busy
		ns := newNodes(t, 2)
		for k, slow := range []string{fmt.Sprint((heartbeat * 5 / 2).Seconds()), "0"} {
			// The ranks of node 1 put 7 MB. The build takes longer than the silence after which a node counts as lost.
			cmd := ns.command(k, "--heartbeat", heartbeat.String(), "-n", "9", "--rank-file", filepath.Join(dir, "ranks"),
				filepath.Join(dir, "rank"), "pmi-load", "1000")
			cmd.Env = []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "RANK=" + rank, "SLOW=" + slow,
				"XDG_CACHE_HOME=" + filepath.Join(dir, "cache", heartbeat.String()+slow)}
			ns.list[k] = startCommand(t, 0, cmd)
			ns.list[k].long = true // there is much to do
		}
		first, second := ns.list[0].ended(0, ""), ns.list[1].ended(0, "")
		if wrong = first + second; wrong == "" {
			return
		}
		// A side was silent for the time of a heartbeat. At the end of a job node 0 then exits without it.
		left := first == "" && strings.Contains(second, "the ibrun of node 0 (n0) at ")
		if !strings.Contains(wrong, "no heartbeat for ") && !left {
			break
		}
		t.Log(wrong)
	}
	t.Error(wrong)
}
