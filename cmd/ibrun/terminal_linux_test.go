package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a new pseudo-terminal.
func openTerminal(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, terminal
}

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

// testBackgroundJob runs a script in a terminal. When the script has started, it types keys.
func testBackgroundJob(t *testing.T, keys, script string) {
	master, terminal := openTerminal(t)
	cmd := exec.Command("bash", "-c", script)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p := &process{t: t, cmd: cmd}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	terminal.Close()
	var mu sync.Mutex
	shown := ""
	go func() {
		buf := make([]byte, 1000)
		for {
			n, err := master.Read(buf)
			if err != nil {
				return
			}
			mu.Lock()
			shown += string(buf[:n])
			mu.Unlock()
		}
	}()
	want := func(text string) {
		t.Helper()
		defer func() {
			if t.Failed() {
				t.Logf("the terminal shows\n%s", shown)
			}
		}()
		p.eventually("the terminal does not show "+text, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return strings.Contains(shown, text)
		})
	}
	write := func(text string) {
		t.Helper()
		if _, err := master.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	want("started")
	if keys != "" {
		write(keys)
		want("quiet")
	}
	for i := range 50 { // if both read, the rank gets one of them
		write(fmt.Sprintf("line %d\n", i))
		want(fmt.Sprintf("shell:line %d.", i))
	}
	write("the rest\n")
	want("rank:the rest")
	write("\x04") // the end of the input
	want("ended")
}

// The command with which ibrun starts other nodes does not wait for what a user types.
func TestNodeInTerminal(t *testing.T) {
	t.Parallel()
	_, terminal := openTerminal(t)
	defer terminal.Close()
	cmd := exec.Command("ibrun", "node")
	cmd.Stdin = terminal
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), "only for ibrun itself") {
		t.Errorf("exit code %d, output %q", code, out)
	}
}
