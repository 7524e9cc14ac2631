package main

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs"
)

// side is a program on a node.
type side struct {
	name string
	argv []string
}

// goProgram is this program with a provider.
func goProgram(t *testing.T, provider string) side {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return side{name: provider, argv: []string{"env", asProgram + "=1", verbs.ProviderVariable + "=" + provider, program, "-t"}}
}

// cProgram is the program in C.
func cProgram() side { return side{name: "c"} }

// command returns the command with its arguments. The Go program has the transport as an argument, the C programs in their
// names.
func (s side) command(n live.Node, kind string, gid int, args ...string) *exec.Cmd {
	argv := append([]string{"ibv_" + kind + "_pingpong", "-g", strconv.Itoa(gid)}, args...)
	if s.argv != nil {
		argv = append(append(append([]string{}, s.argv...), kind), args...)
	}
	return n.Command(argv[0], argv[1:]...)
}

// session is a server and a client that exchange messages.
type session struct {
	kind           string
	server, client side
	from, to       live.Node // of client and server
	gid            int       // for the C programs
	args           []string
	iters          int
}

// watchdog is far more than the duration of a session, also in an emulated guest.
const watchdog = 5 * time.Minute

// run fails the test unless both sides succeed and print their results. When one side fails, it stops the other, which might
// wait forever.
func (g session) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), watchdog)
	defer cancel()
	args := append([]string{"-n", strconv.Itoa(g.iters)}, g.args...)

	var serverOut string
	var serverErr error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if serverOut, serverErr = output(ctx, g.server.command(g.to, g.kind, g.gid, args...)); serverErr != nil {
			cancel()
		}
	}()
	defer func() { // also if runClient ends the test
		cancel()
		<-ended
	}()
	clientOut, clientErr := g.runClient(ctx, t, args, ended)
	if clientErr != nil {
		cancel()
	}
	<-ended
	if serverErr != nil || clientErr != nil {
		t.Errorf("server %s: %v, client %s: %v", g.server.name, serverErr, g.client.name, clientErr)
	}
	for role, text := range map[string]string{"client": clientOut, "server": serverOut} {
		if !strings.Contains(text, fmt.Sprintf("%d iters in ", g.iters)) || strings.Contains(text, "invalid data") {
			t.Errorf("the %s printed:\n%s", role, text)
		}
	}
}

// runClient runs the client, repeatedly until the server listens.
func (g session) runClient(ctx context.Context, t *testing.T, args []string, ended chan struct{}) (text string, err error) {
	t.Helper()
	waittest.Until(t, "the server listens, or ends", func() bool {
		text, err = output(ctx, g.client.command(g.from, g.kind, g.gid, append(args, g.to.Addr)...))
		refused := strings.Contains(text, "connection refused") || strings.Contains(text, "Couldn't connect to")
		select {
		case <-ended:
			return true
		default:
			return err == nil || !refused
		}
	})
	return text, err
}

// output runs a command, and kills it when the context ends.
func output(ctx context.Context, c *exec.Cmd) (string, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { c.Process.Kill() })
	defer stop()
	err := c.Wait()
	return out.String(), err
}

// ipv4 returns the index of the GID that package verbs chooses. It is the same on all nodes.
func ipv4(t *testing.T) int {
	t.Helper()
	dev, err := verbs.Open(live.Device(t), verbs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	gid, err := dev.ChooseGID(1, netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	return gid.Index
}

// testAll tests every transport with every pair of programs of which at least one is the Go program, with either provider.
func testAll(t *testing.T, from, to live.Node) {
	gid := ipv4(t)
	port := 18515
	for _, kind := range []string{"rc", "uc", "ud", "srq"} {
		soft, library := goProgram(t, "rxe"), goProgram(t, "libibverbs")
		for _, sides := range [][2]side{
			{cProgram(), soft}, {soft, cProgram()}, {cProgram(), library}, {library, cProgram()}, {soft, library},
		} {
			server, client := sides[0], sides[1]
			t.Run(fmt.Sprintf("%s/%s serves %s", kind, server.name, client.name), func(t *testing.T) {
				// A port that was just used may still be closing.
				port++
				session{kind: kind, server: server, client: client, from: from, to: to, gid: gid, iters: 50,
					args: []string{"-c", "-p", strconv.Itoa(port)}}.run(t)
			})
		}
	}
}

func TestLivePrograms(t *testing.T) {
	live.Device(t)
	node := live.Node{Addr: "127.0.0.1"}
	testAll(t, node, node)
}

func TestLiveNodes(t *testing.T) {
	nodes := live.Nodes(t, 2)
	testAll(t, nodes[0], nodes[1])
}

// TestLiveOptions: sleeping in place of polling; messages of one byte and of several packets; fewer round trips than queue
// pairs.
func TestLiveOptions(t *testing.T) {
	live.Device(t)
	node, gid := live.Node{Addr: "127.0.0.1"}, ipv4(t)
	port := 18615
	for _, p := range []string{"rxe", "libibverbs"} {
		for _, c := range []struct {
			kind  string
			iters int
			args  []string
		}{
			{"rc", 100, []string{"-e", "-c"}},
			{"ud", 100, []string{"-e", "-s", "700"}},
			{"srq", 100, []string{"-e"}},
			{"srq", 5, nil},
			{"uc", 100, []string{"-g", strconv.Itoa(gid)}},
			{"rc", 100, []string{"-s", "1", "-m", "256"}},
			{"rc", 10, []string{"-s", "100000", "-m", "1024", "-c"}},
		} {
			t.Run(fmt.Sprintf("%s/%s %v", p, c.kind, c.args), func(t *testing.T) {
				port++
				args := append([]string{"-p", strconv.Itoa(port)}, c.args...)
				session{kind: c.kind, server: goProgram(t, p), client: cProgram(), from: node, to: node, gid: gid,
					iters: c.iters, args: args}.run(t)
			})
		}
	}
}

// TestLiveErrors: errors are printed, with the reason.
func TestLiveErrors(t *testing.T) {
	device := live.Device(t)
	for name, c := range map[string]struct{ args, want string }{
		"no such device": {"-d nosuch0", "no such device"},
		"no such GID":    {"-g 999", "-g 999"},
		"no such port":   {"-i 9", "port 9 is out of range"},
		"two hosts":      {"-d " + device + " 127.0.0.1 -p 1", "one host at most"},
		"refused":        {"-p 1 127.0.0.1", "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			p := goProgram(t, "rxe")
			out, err := p.command(live.Node{}, "rc", 0, strings.Fields(c.args)...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("error %v, output %q; want an error with %q", err, out, c.want)
			}
		})
	}
}
