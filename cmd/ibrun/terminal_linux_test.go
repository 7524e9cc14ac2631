package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/internal/ptytest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// A job in the background does not read the terminal: the shell gets what is typed. In the foreground rank 0 gets it.
func TestBackgroundJob(t *testing.T) {
	const lines = `for i in {1..50}; do read -r line; echo "shell:$line."; done; fg >/dev/null; echo ended`
	t.Run("started there", func(t *testing.T) {
		testBackgroundJob(t, "", `set -m
ibrun -n 1 sh -c 'echo started; sed -u s/^/rank:/' &
`+lines)
	})
	t.Run("continued there", func(t *testing.T) { // it is stopped again when it reads
		testBackgroundJob(t, "\x1a", `set -m
ibrun -n 1 sh -c 'echo started; sed -u s/^/rank:/'
bg; until [ "$(jobs -s)" ]; do sleep 0.05; done; echo quiet
`+lines)
	})
}

// terminalView is a terminal in which a command runs, and what it shows.
type terminalView struct {
	t      *testing.T
	master *os.File
	ended  chan struct{} // closed when no process has the terminal open and all that was written is in shown
	mu     sync.Mutex
	shown  string
}

// startInTerminal starts a command as the leader of a new terminal.
func startInTerminal(t *testing.T, cmd *exec.Cmd) *terminalView {
	t.Helper()
	master, terminal := ptytest.Open(t)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	terminal.Close()
	v := &terminalView{t: t, master: master, ended: make(chan struct{})}
	go func() {
		defer close(v.ended)
		buf := make([]byte, 1000)
		for {
			n, err := master.Read(buf)
			if err != nil {
				return
			}
			v.mu.Lock()
			v.shown += string(buf[:n])
			v.mu.Unlock()
		}
	}()
	return v
}

// text returns what the terminal shows.
func (v *terminalView) text() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.shown
}

// shows reports whether the terminal shows text.
func (v *terminalView) shows(text string) bool { return strings.Contains(v.text(), text) }

// want waits until the terminal shows one of the texts.
func (v *terminalView) want(texts ...string) {
	v.t.Helper()
	defer waittest.LogIfFailed(v.t, func() string { return "the terminal shows\n" + v.text() })
	p := &process{t: v.t}
	what := "the terminal does not show " + strings.Join(texts, " or ")
	p.eventually(what, func() bool { return slices.ContainsFunc(texts, v.shows) })
}

// write types keys.
func (v *terminalView) write(keys string) {
	v.t.Helper()
	if _, err := v.master.WriteString(keys); err != nil {
		v.t.Fatal(err)
	}
}

// testBackgroundJob runs a script in a terminal. When the script has started, it types keys.
func testBackgroundJob(t *testing.T, keys, script string) {
	v := startInTerminal(t, exec.Command("bash", "-c", script))
	v.want("started")
	if keys != "" {
		v.write(keys)
		v.want("quiet")
	}
	for i := range 50 { // if both read, the rank gets one of them
		v.write(fmt.Sprintf("line %d\n", i))
		v.want(fmt.Sprintf("shell:line %d.", i))
	}
	v.write("the rest\n")
	v.want("rank:the rest")
	v.write("\x04") // the end of the input
	v.want("ended")
}

// The command with which ibrun starts other nodes does not wait for what a user types.
func TestNodeInTerminal(t *testing.T) {
	t.Parallel()
	_, terminal := ptytest.Open(t)
	defer terminal.Close()
	cmd := exec.Command("ibrun", "node")
	cmd.Stdin = terminal
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), "only for ibrun itself") {
		t.Errorf("exit code %d, output %q", code, out)
	}
}
