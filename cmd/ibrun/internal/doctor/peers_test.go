package doctor

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeSSH returns a peerProber whose ssh runs this shell script. It can connect to every host but "away".
func fakeSSH(t *testing.T, script string) peerProber {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ssh")
	if err := os.WriteFile(name, []byte("#!/bin/bash\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return peerProber{timeout: time.Minute, ssh: []string{name}, dial: func(_ context.Context, _, address string) (net.Conn, error) {
		if address == "away:22" {
			return nil, errors.New("no route to host")
		}
		ours, theirs := net.Pipe()
		return ours, theirs.Close()
	}}
}

// A real shell runs probeScript here, so that parseOutput reads its actual output.
func TestProbe(t *testing.T) {
	tools := t.TempDir()
	const ibrun = "#!/bin/sh\n[ $1 = version ] && echo ibrun v1 || echo '[{\"port\":\"mlx5_0/1\"}]'\n"
	if err := os.WriteFile(filepath.Join(tools, "ibrun"), []byte(ibrun), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, script string
		want         Peer
		login        string
	}{
		{"node2", `PATH=` + tools + `:$PATH SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22" sh -c "$3"`, Peer{Version: "ibrun v1",
			ConnectsBack: true}, ""},
		{"me@node2", `[ "$2" = me@node2 ] && PATH=` + tools + `:$PATH SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22" sh -c "$3"`,
			Peer{Version: "ibrun v1", ConnectsBack: true}, ""},
		{"node2", `SSH_CONNECTION="192.0.2.1 1 192.0.2.2 22" PATH=/usr/bin:/bin sh -c "${3/timeout 5/timeout 0.1}" 2>/dev/null`,
			Peer{}, ""},
		{"node2", `echo "Permission denied (publickey)." >&2; exit 255`, Peer{}, "Permission denied (publickey)."},
		{"node2", `echo "Welcome!"; echo; echo; echo; echo`, Peer{}, "printed 5 lines"},
		{"node2", `echo soon; echo v; echo; echo back`, Peer{}, `invalid time "soon"`},
		{"node2", `exit 3`, Peer{}, "exit status 3"},
	} {
		peers, err := fakeSSH(t, c.script).probeAll(t.Context(), []string{c.name})
		if err != nil || len(peers) != 1 {
			t.Fatalf("%q: %v, %v", c.script, peers, err)
		}
		p := peers[0]
		if c.login != "" {
			if p.LoginErr == nil || !strings.Contains(p.LoginErr.Error(), c.login) {
				t.Errorf("%q: login %v, want %q", c.script, p.LoginErr, c.login)
			}
			continue
		}
		if c.want.Version != "" && (len(p.Ports) != 1 || p.Ports[0].Port != "mlx5_0/1") || c.want.Version == "" && p.PortsErr == nil {
			t.Errorf("%q: ports %v, %v", c.script, p.Ports, p.PortsErr)
		}
		if p.LoginErr != nil || p.ConnectErr != nil || p.Name != c.name || p.Version != c.want.Version ||
			p.ConnectsBack != c.want.ConnectsBack ||
			p.ClockOffset.Abs() > p.ClockError+time.Second {
			t.Errorf("%q: %+v, want %+v", c.script, p, c.want)
		}
	}
	peers, err := fakeSSH(t, "exit 1").probeAll(t.Context(), []string{"away", "node2"})
	if err != nil || peers[0].ConnectErr == nil || peers[1].ConnectErr != nil || peers[1].LoginErr == nil {
		t.Errorf("%+v, %v; want a ConnectErr only for the first", peers, err)
	}
	// What a host prints does not reach the terminal as it is.
	peers, err = fakeSSH(t, `printf 'warning\n\033]0;x\007denied%0900d' 0 >&2; exit 255`).probeAll(t.Context(), []string{"node2"})
	escaped := `\x1b]0;x\x07denied` + strings.Repeat("0", maxProbeLine-len("\x1b]0;x\adenied"))
	if err != nil || peers[0].LoginErr.Error() != escaped {
		t.Errorf("%+v, %v", peers, err)
	}
	peers, err = fakeSSH(t, `echo 1; printf 'v\033[2J\n'; echo []; echo back`).probeAll(t.Context(), []string{"node2"})
	if err != nil || peers[0].Version != `v\x1b[2J` {
		t.Errorf("%+v, %v", peers, err)
	}
	// A name that only ssh knows.
	peers, err = fakeSSH(t, "echo 1; echo v; echo []; echo back").probeAll(t.Context(), []string{"away"})
	if err != nil || peers[0].ConnectErr != nil || !peers[0].ConnectsBack {
		t.Errorf("%+v, %v; want it to be reachable", peers, err)
	}
}
