package clustertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/soaktest"
)

// here is a program that prints its rank, the size of the world and the host on which it runs.
const here = `echo "$PMI_RANK of $PMI_SIZE on $(uname -n)"`

var ab = []string{"a", "b"}

// TestSSH: the hosts of --hosts, of a host file and of the variables that name one run the ranks.
func TestSSH(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, ab, nil)
	five := []string{"0 of 5 on a", "1 of 5 on b", "2 of 5 on b", "3 of 5 on b", "4 of 5 on b"}
	n.start("ibrun", "--hosts", "a:1,b:4", "sh", "-c", here).want(0).wantLines(five...)
	n.start("ibrun", "--hosts", "a,b:4", "-n", "4", "pi").want(0).wantPi()
	n.start("ibrun", "--hosts", "a:2,b:2", "sum").want(0).wantLines("sum of 4 ranks: 6")
	for _, text := range []string{"# Open MPI\na slots=1\nroot@b slots=4\n", "a:1\nb:4 # MPICH\n"} {
		file := filepath.Join(t.TempDir(), "hosts")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		n.start("ibrun", "--hostfile", file, "sh", "-c", here).want(0).wantLines(five...)
		j := n.newJob("ibrun", "sh", "-c", here)
		j.cmd.Env = append(j.cmd.Env, "OMPI_MCA_orte_default_hostfile="+file)
		j.start().want(0).wantLines(five...)
	}
}

// TestSSHTravels: arguments, working directory, environment and standard input reach the ranks, though ssh forwards none.
func TestSSHTravels(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, ab, nil)
	dir := filepath.Join(t.TempDir(), "a b")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	const value = "one 'two' \"three\" $four\n\\five"
	j := n.newJob("ibrun", "--hosts", "a:1,b:1", "sh", "-c",
		`printf '%s|%s|%s' "$PWD" "$VALUE" "$1" >$(uname -n)`, "sh", value)
	j.cmd.Dir = dir
	j.cmd.Env = append(j.cmd.Env, "VALUE="+value)
	j.start().want(0)
	wantFile(t, dir+"/a", dir+"|"+value+"|"+value)
	wantFile(t, dir+"/b", dir+"|"+value+"|"+value)
	j = n.newJob("ibrun", "--hosts", "a:1,b:1", "-l", "cat")
	j.cmd.Stdin = strings.NewReader("first\nsecond\n")
	j.start().want(0).wantLines("[0] first", "[0] second")
}

// TestSSHCopy: a program that another host lacks, or has in another version, is copied there.
func TestSSHCopy(t *testing.T) {
	t.Parallel()
	program := script(t, here)
	hide := "mount -t tmpfs tmpfs " + filepath.Dir(program)
	other := hide + "; echo '#!/bin/false' >" + program + "; chmod +x " + program
	n := newNetwork(t, ab, map[string]setup{"a": {script: hide}, "b": {script: other}})
	n.start("ibrun", "--hosts", "a:1,b:1", "--copy", program).want(0).wantLines("0 of 2 on a", "1 of 2 on b")
	j := n.start("ibrun", "--hosts", "a:1", program)
	if code := j.wait(); code == 0 || !strings.Contains(j.err(), "--copy") || !strings.Contains(j.err(), program) {
		t.Errorf("exit code %d:\n%s", code, j.err())
	}
	j.nothingLeft()
}

// TestSSHExit: exit codes, and time to end, come through.
func TestSSHExit(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, ab, nil)
	for rank, name := range ab {
		n.start("ibrun", "--hosts", "a:1,b:1", "sh", "-c", fmt.Sprintf("test $PMI_RANK != %d || exit 3; sleep 1000", rank)).
			want(3, fmt.Sprintf("rank %d on %s", rank, name))
	}
	for range soaktest.Choose(20, 1) {
		program, dir := writesFile(t)
		j := n.start("ibrun", "--hosts", "a:2,b:2", program)
		j.wrote("ready", 4)
		if err := j.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		j.wait()
		j.nothingLeft()
		wantFiles(t, dir, 4)
	}
}

// TestSSHKill: whichever process is killed, or host is cut off, nothing is left on any host.
func TestSSHKill(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, ab, nil)
	ready := []string{"--hosts", "a:2,b:2", "sh", "-c", "echo ready; sleep 1000"}
	for _, victim := range [][]string{{"ibrun", "--hosts"}, {"ibrun", "node"}, {"ssh"}} {
		j := n.start(append([]string{"ibrun"}, ready...)...)
		j.wrote("ready", 4)
		pids := j.find(victim[0], victim[1:]...)
		if len(pids) == 0 {
			t.Fatalf("there is no process %q", victim)
		}
		if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if code := j.wait(); code == 0 {
			t.Errorf("exit code 0 after SIGKILL of %q", victim)
		}
		j.nothingLeft()
	}
	j := n.start(append([]string{"ibrun", "--heartbeat", "10s"}, ready...)...)
	j.wrote("ready", 4)
	n.cut(1)
	began := time.Now()
	if code := j.wait(); code == 0 || !strings.Contains(j.err(), "(b)") {
		t.Errorf("exit code %d after b was cut off:\n%s", code, j.err())
	}
	t.Logf("ibrun ended %v after b was cut off:\n%s", time.Since(began), j.err())
	j.nothingLeft()
	t.Logf("nothing was left after %v", time.Since(began))
}

// TestManyHosts: more hosts than connect at a time.
func TestManyHosts(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, []string{"a"}, nil)
	config, err := os.ReadFile(n.file("config"))
	if err != nil {
		t.Fatal(err)
	}
	n.write("config", fmt.Sprintf("Host host*\n\tHostName %s\n%s", n.hosts[0].addr, config), 0o600)
	var names, want []string
	for i := range 24 {
		names = append(names, fmt.Sprintf("host%d:1", i))
		want = append(want, fmt.Sprintf("%d of 24", i))
	}
	n.start("ibrun", "--hosts", strings.Join(names, ","), "sh", "-c", "echo $PMI_RANK of $PMI_SIZE").want(0).wantLines(want...)
}
