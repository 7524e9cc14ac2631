package guest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/soft-roce/vm/internal/mux"
)

// startAgent serves commands in this process, as the agent of a guest does, and returns the host's session.
func startAgent(t *testing.T) *mux.Session {
	a, b := net.Pipe()
	host, guest := mux.NewSession(a, mux.Host), mux.NewSession(b, mux.Guest)
	t.Cleanup(func() {
		host.Close()
		guest.Close()
	})
	go func() {
		for {
			stream, err := guest.Accept()
			if err != nil {
				return
			}
			go serve(stream)
		}
	}()
	return host
}

func command(args ...string) mux.Command {
	return mux.Command{Args: args, Dir: "/", Env: []string{"PATH=/usr/bin:/bin", "A=b"}}
}

// runCommand runs a command on an agent.
func runCommand(t *testing.T, s *mux.Session, c mux.Command, stdin io.Reader) (code int, out, errs string, err error) {
	t.Helper()
	stream, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	var o, e bytes.Buffer
	code, err = mux.Run(stream, c, stdin, &o, &e)
	return code, o.String(), e.String(), err
}

func TestPrograms(t *testing.T) {
	s := startAgent(t)
	binary := make([]byte, 1<<20)
	for i := range binary {
		binary[i] = byte(i * i >> 3)
	}
	for _, c := range []struct {
		script    string
		stdin     string
		code      int
		out, errs string
	}{
		{script: "exit 7", code: 7},
		{script: "kill -TERM $$", code: 128 + 15},
		{script: "printf 'a\\000b'; printf 'c\\n' >&2", out: "a\x00b", errs: "c\n"},
		{script: "cat", stdin: string(binary), out: string(binary)},
		{script: "exec cat >&2", stdin: string(binary), errs: string(binary)},
		{script: "echo $A; pwd", out: "b\n/\n"},
		{script: "exec 0<&-; exit 3", stdin: string(binary), code: 3},
		{script: "head -c 1", stdin: "yes", out: "y"},
	} {
		code, out, errs, err := runCommand(t, s, command("sh", "-c", c.script), strings.NewReader(c.stdin))
		if code != c.code || out != c.out || errs != c.errs || err != nil {
			t.Errorf("%s: code %d, %d bytes %.20q, %d bytes %.20q, %v", c.script, code, len(out), out, len(errs), errs, err)
		}
	}
}

// The end of a program is reported after all its output, even if another process still has the output open.
func TestChildrenAreNotWaitedFor(t *testing.T) {
	s := startAgent(t)
	code, out, _, err := runCommand(t, s, command("sh", "-c", "sleep 1000 & head -c 60000 /dev/zero; echo $!"), nil)
	if code != 0 || err != nil || len(out) < 60000 {
		t.Fatalf("code %d, %d bytes, %v", code, len(out), err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out[60000:]))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the child process was not left running: %v", err)
	}
}

func TestProgramIsKilledWhenStreamCloses(t *testing.T) {
	s := startAgent(t)
	file := filepath.Join(t.TempDir(), "pids")
	stream, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	// The program does not read its standard input, and has a child.
	if err := mux.SendCommand(stream, command("sh", "-c", "sleep 1000 & echo $! $$ > "+file+".new; mv "+file+".new "+file+
		"; echo ready; wait")); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	stream.Close()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		waittest.Until(t, fmt.Sprintf("process %d ends", pid), func() bool { return !alive(pid) })
	}
}

// alive reports whether a process runs. A zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

func TestProgramsThatCannotBeStarted(t *testing.T) {
	s := startAgent(t)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	wrongDir := command("true")
	wrongDir.Dir = "/no/such/directory"
	for _, c := range []struct {
		mux.Command
		code int
	}{
		{command("surely-not-here"), codeNotFound},
		{command(text), codeNotExecutable},
		{command("/no/such/program"), codeNotFound},
		{wrongDir, codeNotExecutable},
	} {
		code, _, _, err := runCommand(t, s, c.Command, nil)
		if code != c.code || err == nil {
			t.Errorf("%v in %s: code %d, %v; want code %d and the reason", c.Args, c.Dir, code, err, c.code)
		}
	}
}

func TestExecOutsideOfGuests(t *testing.T) {
	if _, err := os.Stat(socket); err == nil {
		t.Logf("this is a guest")
		return
	}
	if code, err := execute(1, []string{"true"}, false); code != codeFailed || !errors.Is(err, syscall.ENOENT) {
		t.Errorf("code %d, %v", code, err)
	}
	for _, args := range [][]string{{}, {"1"}, {"one", "true"}, {"-1", "true"}, {"-nonsense"}} {
		if code := Exec(args); code != codeUse {
			t.Errorf("vm exec %q: code %d", args, code)
		}
	}
}
