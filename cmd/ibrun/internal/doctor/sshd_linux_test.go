package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/freeport"
	"github.com/ibrun/ibrun/internal/needtest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// sshd is a server on the loopback interface with its own keys.
type sshd struct {
	dir  string
	addr string
	cmd  *exec.Cmd
}

// startSSHD starts a server that accepts the key "mine". Its commands have an ibrun in their PATH.
func startSSHD(t *testing.T) *sshd {
	t.Helper()
	server := needtest.Program(t, "/usr/sbin/sshd", "openssh-server")
	keygen := needtest.Program(t, "ssh-keygen", "openssh-client")
	needtest.Program(t, "ssh", "openssh-client")
	s := &sshd{dir: t.TempDir()}
	for _, key := range []string{"host", "mine", "other"} {
		if out, err := exec.Command(keygen, "-q", "-t", "ed25519", "-N", "", "-f", s.file(key)).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	port, err := freeport.TCP()
	if err != nil {
		t.Fatal(err)
	}
	s.addr = fmt.Sprint("127.0.0.1:", port)
	s.write(t, "ibrun", "#!/bin/sh\necho ibrun v1\n", 0o755)
	mine, err := os.ReadFile(s.file("mine.pub"))
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, "authorized", string(mine), 0o600)
	s.write(t, "config", fmt.Sprintf("ListenAddress 127.0.0.1\nPort %d\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\n"+
		"StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nSetEnv PATH=%s:/usr/bin:/bin\n",
		port, s.file("host"), s.file("authorized"), s.dir), 0o600)
	if os.Geteuid() == 0 { // what Debian's service does before it starts
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	output, err := os.Create(s.file("log"))
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(server, "-D", "-e", "-f", s.file("config"))
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.cmd.Stderr = output
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Logf("output of sshd:\n%s", s.log(t))
		}
		if err := output.Close(); err != nil {
			t.Error(err)
		}
	})
	waittest.UntilNil(t, "sshd listens", func() error {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			return err
		}
		return c.Close()
	})
	host, err := os.ReadFile(s.file("host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, "known", fmt.Sprintf("[127.0.0.1]:%d %s", port, host), 0o600)
	return s
}

// log returns what the server has written.
func (s *sshd) log(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(s.file("log"))
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

func (s *sshd) file(name string) string { return filepath.Join(s.dir, name) }

func (s *sshd) write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(s.file(name), []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// stop ends the server. It may be called twice.
func (s *sshd) stop() {
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()         // which says that it was killed
}

// prober returns the peerProber of ibrun doctor, but with the port and the keys of this server.
func (s *sshd) prober(key, known string) peerProber {
	a := newPeerProber()
	a.timeout = time.Minute
	_, port, _ := net.SplitHostPort(s.addr)
	// Of an option that is given twice, ssh takes the first value.
	a.ssh = slices.Insert(a.ssh, 1, "-o", "ConnectTimeout=60")
	a.ssh = append(a.ssh, "-F", "none", "-p", port, "-i", s.file(key), "-o", "IdentitiesOnly=yes",
		"-o", "IdentityAgent=none", "-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile="+s.file(known))
	dial := a.dial
	a.dial = func(ctx context.Context, network, _ string) (net.Conn, error) { return dial(ctx, network, s.addr) }
	return a
}

// TestRealSSH probes a real server with the real ssh. Failures are reported in the words of ssh.
func TestRealSSH(t *testing.T) {
	s := startSSHD(t)
	probe := func(key, known string) Peer {
		t.Helper()
		peers, err := s.prober(key, known).probeAll(t.Context(), []string{"127.0.0.1"})
		if err != nil || len(peers) != 1 {
			t.Fatalf("%v, %v", peers, err)
		}
		return peers[0]
	}
	p := probe("mine", "known")
	if refused := regexp.MustCompile("User .* not allowed because .*").FindString(s.log(t)); refused != "" {
		t.Skipf("needs a user who may log in; sshd says: %s", refused)
	}
	if p.LoginErr != nil || p.ConnectErr != nil || p.Version != "ibrun v1" || !p.ConnectsBack || p.ConnectTime <= 0 ||
		p.ClockOffset.Abs() > p.ClockError+time.Second {
		t.Errorf("a good host: %+v", p)
	}
	h := &Host{Name: "here", Version: "ibrun v1", Peers: []Peer{p}}
	for _, check := range []func(*Host) []Finding{reachHosts, reachClock, sshLogin, sshVersion, sshPort} {
		for _, f := range check(h) {
			if f.Severity != OK {
				t.Errorf("a good host: %+v", f)
			}
		}
	}
	if p := probe("other", "known"); p.LoginErr == nil || p.ConnectErr != nil || !strings.Contains(p.LoginErr.Error(),
		"Permission denied") {
		t.Errorf("a key that is not accepted: %+v", p)
	}
	if p := probe("mine", "unknown"); p.LoginErr == nil || !strings.Contains(p.LoginErr.Error(), "Host key verification failed") {
		t.Errorf("an unknown host: %+v", p)
	}
	if err := os.Remove(s.file("ibrun")); err != nil {
		t.Fatal(err)
	}
	if p := probe("mine", "known"); p.LoginErr != nil || p.Version != "" {
		t.Errorf("a host without ibrun: %+v", p)
	} else if f := sshVersion(&Host{Version: "ibrun v1", Peers: []Peer{p}}); len(f) != 1 || f[0].Severity != Error {
		t.Errorf("a host without ibrun: %+v", f)
	}
	s.stop()
	if p := probe("mine", "known"); p.ConnectErr == nil || p.LoginErr == nil || !strings.Contains(p.LoginErr.Error(),
		"Connection refused") {
		t.Errorf("a host without a server: %+v", p)
	}
}
