package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The output of ranks on other nodes arrives complete, whatever bytes they write, and standard input reaches rank 0 there.
func TestForwardedBytes(t *testing.T) {
	t.Parallel()
	in := bytes.Repeat([]byte("\x00\xff\r\n\x01binary"), 1<<18)
	cmd := startOn(t, direct, "a:1,b:1", "sh", "-c", `test "$PMI_RANK" = 1 || cat`)
	cmd.Stdin = bytes.NewReader(append(in, "no newline"...))
	p := startCommand(t, 0, cmd)
	out, err := io.ReadAll(p.out)
	if err != nil || sha256.Sum256(out) != sha256.Sum256(append(in, "no newline"...)) {
		t.Errorf("%d bytes, or others: %v", len(out), err)
	}
	p.wantCode(0, "")
	p.wantNoProcesses()
}

// Lines of ranks on several nodes, of which node 0 is one, stay whole, and none is lost.
func TestForwardedLinesStayWhole(t *testing.T) {
	t.Parallel()
	p := startCommand(t, 0, startOn(t, direct, "h0:2,b:2,c:2", "rank", "flood", "1000000"))
	count := map[string]int{}
	for {
		line, err := p.out.ReadString('\n')
		if err == io.EOF {
			break
		}
		if line != strings.Repeat(line[:1], 99)+"\n" {
			t.Fatalf("not the line of one rank: %q", line)
		}
		count[line[:1]]++
	}
	for rank := range 6 {
		if n := count[fmt.Sprint(rank)]; n != 10000 {
			t.Errorf("%d lines of rank %d arrived, want 10000", n, rank)
		}
	}
	p.wantCode(0, "")
}

// The last output of a rank of another node is not repeated if it is the end of what node 0 shows.
func TestForwardedLastOutput(t *testing.T) {
	t.Parallel()
	p := startCommand(t, 0, startOn(t, direct, "h0:1,b:1", "sh", "-c",
		`test "$PMI_RANK" = 0 || { echo some words >&2; exit 3; }; sleep 1000`))
	p.wantCode(3, "some words\nibrun: rank 1 on b ")
}

// A signal and --timeout end a job on other nodes whose output is not read, with the exit codes of a job on one machine.
func TestForwardedOutputUnread(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sig  syscall.Signal
		args []string
		code int
	}{
		"SIGINT":         {syscall.SIGINT, []string{"yes"}, 130},
		"--timeout":      {0, []string{"--timeout", "LIMIT", "yes"}, 124},
		"success before": {syscall.SIGTERM, []string{"rank", "flood", "100000"}, 143},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startUnread(t, func(timeout string) *exec.Cmd {
				args := slices.Clone(c.args)
				if i := slices.Index(args, "LIMIT"); i >= 0 {
					args[i] = timeout
				}
				return startOn(t, direct, "a:1,b:1", args...)
			})
			if c.sig != 0 {
				p.signal(p.cmd.Process.Pid, c.sig)
			}
			if code := p.waitUnread(); code != c.code {
				t.Errorf("exit code %d, want %d; stderr:\n%s", code, c.code, p.stderrText())
			}
			p.wantNoProcesses()
		})
	}
}

// If the user closes the reading end of the output, the exit code is that of SIGPIPE, as on one machine.
func TestForwardedOutputClosed(t *testing.T) {
	t.Parallel()
	job := startOn(t, direct, "a:1,b:1", "yes")
	cmd := exec.Command("bash", append([]string{"-c", `"$@" | head -1; exit ${PIPESTATUS[0]}`, "bash"}, job.Args...)...)
	p := startCommand(t, 0, cmd)
	if got := p.line(); got != "y\n" {
		t.Errorf("got %q", got)
	}
	p.wantCode(141, "")
	p.wantNoProcesses()
}

// If the ibrun of a node is killed while its ranks write, the job ends, and names it. What arrived is whole.
func TestKillNodeWhileItWrites(t *testing.T) {
	t.Parallel()
	script := "echo $$ > $0.$host\n" + direct
	agent := launchAgent(t, script)
	p := startCommand(t, 0, exec.Command("ibrun", "--launch-agent", agent, "--hosts", "a:1,b:1", "--node-name", "h0", "yes"))
	p.line()
	pid := 0
	p.eventually("the ibrun of node 2 is unknown", func() bool {
		text, err := os.ReadFile(agent + ".b")
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	})
	p.signal(pid, syscall.SIGKILL)
	for {
		line, err := p.out.ReadString('\n')
		if err == io.EOF {
			break
		}
		if line != "y\n" && line != "\n" { // a line of the node that was killed may be cut
			t.Fatalf("got the line %q", line)
		}
	}
	p.wantCode(1, "the connection to ") // which of its connections is seen to end first is not defined
	if text := p.stderrText(); !regexp.MustCompile(`the connection to (b|node 2 \(b\))`).MatchString(text) {
		t.Errorf("node b is not named:\n%s", text)
	}
	p.wantNoProcesses()
}

// What is typed reaches rank 0 on another node, which asks without a newline.
func TestTerminalOfOtherNode(t *testing.T) {
	agent := launchAgent(t, direct)
	testBackgroundJob(t, "", `set -m
ibrun --launch-agent `+agent+` --hosts b:1 --node-name h0 sh -c 'printf "started? "; sed -u s/^/rank:/' &
for i in {1..50}; do read -r line; echo "shell:$line."; done; fg >/dev/null; echo ended`)
}
