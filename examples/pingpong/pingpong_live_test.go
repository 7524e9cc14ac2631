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

	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs"
)

// side is a program on a node.
type side struct {
	name string
	argv []string
}

// ours is this program with a provider, and theirs the C program.
func ours(t *testing.T, provider string) side {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return side{name: provider, argv: []string{"env", asProgram + "=1", verbs.ProviderVariable + "=" + provider, program, "-t"}}
}

func theirs() side { return side{name: "c"} }

// command is the program with its arguments: of ours the transport is one, theirs has it in its name.
func (s side) command(n live.Node, kind string, gid int, args ...string) *exec.Cmd {
	argv := append([]string{"ibv_" + kind + "_pingpong", "-g", strconv.Itoa(gid)}, args...)
	if s.argv != nil {
		argv = append(append(append([]string{}, s.argv...), kind), args...)
	}
	return n.Command(argv[0], argv[1:]...)
}

// game is a server and a client that play until both end.
type game struct {
	kind           string
	server, client side
	from, to       live.Node // of client and server
	gid            int       // for the C programs
	args           []string
	iters          int
}

// watchdog is far beyond what a game takes, in an emulated guest too.
const watchdog = 30 * time.Second

// play fails the test unless both sides end well and say so. When one fails it ends the other, which might wait for ever.
func (g game) play(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), watchdog)
	defer cancel()
	args := append([]string{"-n", strconv.Itoa(g.iters)}, g.args...)

	var heard string
	var serverErr error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if heard, serverErr = output(ctx, g.server.command(g.to, g.kind, g.gid, args...)); serverErr != nil {
			cancel()
		}
	}()
	said, clientErr := g.call(ctx, args, ended)
	if clientErr != nil {
		cancel()
	}
	<-ended
	if serverErr != nil || clientErr != nil {
		t.Errorf("server %s: %v, client %s: %v", g.server.name, serverErr, g.client.name, clientErr)
	}
	for who, text := range map[string]string{"client": said, "server": heard} {
		if !strings.Contains(text, fmt.Sprintf("%d iters in ", g.iters)) || strings.Contains(text, "invalid data") {
			t.Errorf("the %s said:\n%s", who, text)
		}
	}
}

// call runs the client, again and again until the server listens.
func (g game) call(ctx context.Context, args []string, ended chan struct{}) (string, error) {
	for {
		text, err := output(ctx, g.client.command(g.from, g.kind, g.gid, append(args, g.to.Addr)...))
		refused := strings.Contains(text, "connection refused") || strings.Contains(text, "Couldn't connect to")
		if err == nil || !refused {
			return text, err
		}
		select {
		case <-ended:
			return text, err
		case <-time.After(50 * time.Millisecond):
		}
	}
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

// ipv4 is the index of the GID that the rule chooses; all nodes are alike.
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

// games plays every transport with every pair of programs in which one is ours, by either provider, and with two of ours.
func games(t *testing.T, from, to live.Node) {
	gid := ipv4(t)
	port := 18515
	for _, kind := range []string{"rc", "uc", "ud", "srq"} {
		soft, library := ours(t, "rxe"), ours(t, "libibverbs")
		for _, sides := range [][2]side{
			{theirs(), soft}, {soft, theirs()}, {theirs(), library}, {library, theirs()}, {soft, library},
		} {
			server, client := sides[0], sides[1]
			t.Run(fmt.Sprintf("%s/%s serves %s", kind, server.name, client.name), func(t *testing.T) {
				// A port that was just used may still be closing.
				port++
				game{kind: kind, server: server, client: client, from: from, to: to, gid: gid, iters: 50,
					args: []string{"-c", "-p", strconv.Itoa(port)}}.play(t)
			})
		}
	}
}

func TestLivePrograms(t *testing.T) {
	live.Device(t)
	node := live.Node{Addr: "127.0.0.1"}
	games(t, node, node)
}

func TestLiveNodes(t *testing.T) {
	nodes := live.Nodes(t, 2)
	games(t, nodes[0], nodes[1])
}

// With events nobody polls; messages of one byte and of several packets; fewer rounds than queue pairs.
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
				game{kind: c.kind, server: ours(t, p), client: theirs(), from: node, to: node, gid: gid,
					iters: c.iters, args: args}.play(t)
			})
		}
	}
}

// What goes wrong is said, with the reason.
func TestLiveErrors(t *testing.T) {
	device := live.Device(t)
	for name, c := range map[string]struct{ args, want string }{
		"no such device": {"-d nosuch0", "no such device"},
		"no such GID":    {"-g 999", "-g 999"},
		"no such port":   {"-i 9", "no port 9"},
		"nobody there":   {"-d " + device + " 127.0.0.1 -p 1", "one host at most"},
		"refused":        {"-p 1 127.0.0.1", "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			we := ours(t, "rxe")
			out, err := we.command(live.Node{}, "rc", 0, strings.Fields(c.args)...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("error %v, and it said %q; want an error with %q", err, out, c.want)
			}
		})
	}
}
