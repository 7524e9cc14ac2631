package main

import (
	"strings"
	"testing"
)

// TestEncryptOnOneNode: if --encrypt is given to one of two nodes only, each of them says so and ends. Neither waits for the
// other: the time for joining is a minute.
func TestEncryptOnOneNode(t *testing.T) {
	for encrypts, want := range [2][2]string{
		{"node 1 at 127.0.0.1:", "node 0 at 127.0.0.1:"},
		{"node 1 at 127.0.0.1:", "node 0 at 127.0.0.1:"},
	} {
		ns := newNodes(t, 2)
		for k := range ns.n {
			args := []string{"-n", "2", "rank", "pmi"}
			if k == encrypts {
				args = append([]string{"--encrypt"}, args...)
			}
			ns.list[k] = startCommand(t, 0, ns.command(k, args...))
		}
		for k, p := range ns.list {
			p.wantCode(2, want[k])
			with := "was started without --encrypt, and this node with it: give --encrypt to all nodes, or to none"
			if k != encrypts {
				with = "was started with --encrypt, and this node without it: give --encrypt to all nodes, or to none"
			}
			if text := p.stderrText(); !strings.Contains(text, with) || strings.Count(text, "\n") != 1 {
				t.Errorf("node %d wrote %q", k, text)
			}
		}
	}
}

// TestEncryptedNodes: a job whose nodes encrypt runs, and its ranks know that they have to encrypt.
func TestEncryptedNodes(t *testing.T) {
	ns := newNodes(t, 3).start(0, "--encrypt", "-n", "4", "rank", "pmi")
	ns.wantCode(0, "")
	newNodes(t, 2).start(0, "-n", "2", "--encrypt", "sh", "-c", "test $IBRUN_ENCRYPT = 1").wantCode(0, "")
	newNodes(t, 2).start(0, "-n", "2", "--encrypt", "rank", "exit", "7", "1").wantCode(7, "rank 1 on n1 ")
}
