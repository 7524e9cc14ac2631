package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/internal/needtest"
)

// TestGDB: gdb reaches a rank through a socket that only this user can open. It sets a breakpoint, continues, and sees the exit
// code. The rank keeps its standard input and output. Nothing listens on a TCP port, and no socket remains.
func TestGDB(t *testing.T) {
	needtest.Program(t, "gdb", "gdb")
	needtest.Program(t, "gdbserver", "gdbserver")
	runtimeDir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", runtimeDir)
	t.Setenv("DISPLAY", "")
	cmd := exec.Command("ibrun", "-n", "1", "--gdb", "0", "sh", "-c", "read line; echo got $line; exit 3", "sh")
	cmd.Stdin = strings.NewReader("the input\n")
	p := startCommand(t, 0, cmd)
	hint := regexp.MustCompile(`rank 0 waits for: gdb -iex 'set sysroot /' -ex 'target remote (\S+)' (\S+)`)
	var found []string
	p.eventually("no hint is printed", func() bool {
		found = hint.FindStringSubmatch(p.stderrText())
		return found != nil
	})
	socket, program := found[1], found[2]
	if filepath.Dir(filepath.Dir(socket)) != runtimeDir {
		t.Errorf("the socket is %s, not below %s", socket, runtimeDir)
	}
	if info, err := os.Stat(filepath.Dir(socket)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of the socket: %v, %v", info, err)
	}
	p.eventually("the socket is missing", func() bool {
		_, err := os.Stat(socket)
		return err == nil
	})
	p.wantNoTCPListener()
	out, err := exec.Command("gdb", "-q", "-batch", "-nx", "-iex", "set sysroot /",
		"-iex", "set breakpoint pending on", "-ex", "target remote "+socket,
		"-ex", "break _exit", "-ex", "continue", "-ex", "backtrace 1", "-ex", "continue", program).CombinedOutput()
	for _, want := range []string{"Breakpoint 1", "#0 ", "exited with code 03"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("gdb did not print %q: %v\n%s", want, err, out)
		}
	}
	if line := p.line(); line != "got the input\n" {
		t.Errorf("the rank wrote %q", line)
	}
	p.wait()
	if left, err := os.ReadDir(runtimeDir); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// wantNoTCPListener checks that no process of the job listens on a TCP port.
func (p *process) wantNoTCPListener() {
	p.t.Helper()
	for _, l := range p.listeners() {
		if strings.HasPrefix(l, "tcp") {
			p.t.Errorf("a process of the job listens at %s", l)
		}
	}
}

// listeners returns the addresses at which processes of the job listen: "tcp 127.0.0.1:80", or "unix PATH".
func (p *process) listeners() (all []string) {
	p.t.Helper()
	return p.listenersOf(append(p.alive(), p.cmd.Process.Pid)...)
}

// ownTCPPorts returns at how many TCP ports ibrun itself listens.
func (p *process) ownTCPPorts() (n int) {
	p.t.Helper()
	for _, l := range p.listenersOf(p.cmd.Process.Pid) {
		if strings.HasPrefix(l, "tcp") {
			n++
		}
	}
	return n
}

// listenersOf is listeners for these processes.
func (p *process) listenersOf(pids ...int) (all []string) {
	p.t.Helper()
	names := listeningSockets(p.t)
	for _, pid := range pids {
		fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)) // it may have exited
		for _, fd := range fds {
			target, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
			if name, ok := names[target]; ok {
				all = append(all, name)
			}
		}
	}
	return all
}

// listeningSockets returns all listening sockets of this network namespace by their names in /proc/PID/fd.
func listeningSockets(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, family := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile("/proc/self/net/" + family)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			const listening = "0A"
			if f := strings.Fields(line); len(f) > 9 && f[3] == listening {
				found["socket:["+f[9]+"]"] = family + " " + f[1]
			}
		}
	}
	text, err := os.ReadFile("/proc/self/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		const acceptsConnections = "00010000"
		if f := strings.Fields(line); len(f) > 6 && f[3] == acceptsConnections {
			name := "(none)"
			if len(f) > 7 {
				name = f[7]
			}
			found["socket:["+f[6]+"]"] = "unix " + name
		}
	}
	return found
}

// TestGDBInterrupted: if the user gives up before gdb has connected, nothing remains.
func TestGDBInterrupted(t *testing.T) {
	needtest.Program(t, "gdb", "gdb")
	needtest.Program(t, "gdbserver", "gdbserver")
	runtimeDir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", runtimeDir)
	t.Setenv("DISPLAY", "")
	p := startCommand(t, 0, exec.Command("ibrun", "-n", "1", "--gdb", "0", "sleep", "100"))
	p.eventually("the socket is missing", func() bool {
		found, _ := filepath.Glob(runtimeDir + "/ibrun-debug-*/0")
		return len(found) == 1
	})
	p.signal(p.cmd.Process.Pid, syscall.SIGTERM)
	p.wait()
	p.wantNoProcesses()
	if left, err := os.ReadDir(runtimeDir); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}
