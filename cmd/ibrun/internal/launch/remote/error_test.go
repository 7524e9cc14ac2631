package remote

import (
	"strings"
	"testing"
	"time"
)

// TestExplain: the error for what a command has printed has the line that says why, and the remedy with the name of the host.
func TestExplain(t *testing.T) {
	for output, want := range map[string][2]string{
		"Welcome\nroot@n1: Permission denied (publickey,password).\nbye": {
			"root@n1: Permission denied (publickey,password).", "ssh-copy-id n1"},
		"ssh: Could not resolve hostname n1: Name or service not known": {
			"ssh: Could not resolve hostname n1: Name or service not known", "ssh n1 true"},
		"bash: line 1: /opt/ibrun: cannot execute binary file: Exec format error": {"its ibrun is for another architecture", "install"},
		// The lower case of this letter has more bytes than the letter.
		strings.Repeat("Ⱥ", 100) + "\nHost key verification failed.": {"Host key verification failed.", "ssh n1 true"},
	} {
		e := &Error{Host: "n1", ended: true}
		if e.explain(output, "/opt/ibrun"); e.Reason != want[0] || !strings.Contains(e.Remedy, want[1]) {
			t.Errorf("%q: %q; %q, want %q", output, e.Reason, e.Remedy, want)
		}
	}
}

// TestExplainSrun: what srun prints has no remedy with ssh.
func TestExplainSrun(t *testing.T) {
	for output, want := range map[string]string{
		"srun: error: connect: Connection refused":                           "scontrol show node n1,n2",
		"slurmstepd: error: execve(): /opt/ibrun: No such file or directory": "install ibrun there as /opt/ibrun",
	} {
		e := &Error{Host: "n1,n2", ended: true, slurm: true}
		if e.explain(output, "/opt/ibrun"); !strings.HasSuffix(e.Remedy, want) {
			t.Errorf("%q: %q, want %q", output, e.Remedy, want)
		}
	}
}

// TestWithHost: a line that a command prints names its host once.
func TestWithHost(t *testing.T) {
	for _, c := range [][3]string{
		{"Warning: a key was added", "n1", "n1: Warning: a key was added"},
		{"ibrun on n1: more ranks than cores", "n1", "n1: more ranks than cores"},
		{"ibrun on n1: more ranks than cores", "", "n1: more ranks than cores"},
		{"ibrun: the file is too large", "n1", "n1: the file is too large"},
		{"srun: error: n1: task 0: Killed", "", "srun: error: n1: task 0: Killed"},
	} {
		if got := withHost(c[0], c[1]); got != c[2] {
			t.Errorf("%q from %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

// FuzzExplain: whatever a command prints, the reason is a line of it, or one of ours.
func FuzzExplain(f *testing.F) {
	f.Add("ssh: connect to host n1 port 22: Connection refused\n", 255)
	f.Add("\xff\nsrun: error: Unable to create step: No space left on device", 1)
	f.Add(strings.Repeat("Ⱥ", 100)+"permission denied (", 255)
	f.Add("", 127)
	ours := map[string]bool{"": true, "ibrun is not installed there": true, "ibrun cannot be executed there": true}
	for _, s := range symptoms() {
		ours[s.reason] = true
	}
	f.Fuzz(func(t *testing.T, output string, code int) {
		e := &Error{Host: "n1", Code: code, ended: true}
		if e.explain(output, "/opt/ibrun"); !ours[e.Reason] && !strings.Contains("\n"+output+"\n", "\n"+e.Reason+"\n") {
			t.Errorf("%q: the reason is %q", output, e.Reason)
		}
		if (e.unreachable || e.missing) && e.Remedy == "" {
			t.Errorf("%q: no remedy", output)
		}
	})
}

// FuzzScontrol: whatever scontrol prints, an address is a word, and a grace is a part of KillWait.
func FuzzScontrol(f *testing.F) {
	f.Add("NodeName=n1 Arch=x86_64 NodeAddr=10.0.0.1 NodeHostName=n1\nKillOnBadExit = 0\nKillWait                = 30 sec\n")
	f.Add("KillWait = -1 sec NodeAddr=")
	f.Add("KillWait=")
	f.Fuzz(func(t *testing.T, text string) {
		if a := field(text, "NodeAddr"); len(strings.Fields(a)) > 1 || !strings.Contains(text, "NodeAddr="+a) && a != "" {
			t.Errorf("%q: the address is %q", text, a)
		}
		if g := graceOf(text); g < 0 || g > time.Second<<16 {
			t.Errorf("%q: the grace is %v", text, g)
		}
	})
}
