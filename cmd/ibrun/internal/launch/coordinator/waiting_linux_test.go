package coordinator

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/internal/waittest"
)

// serveName answers DNS queries for every name: that it does not exist until known is set, then with 127.0.0.1.
func serveName(t *testing.T, known *atomic.Bool) (addr string) {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	go func() {
		query := make([]byte, 512)
		for {
			n, from, err := socket.ReadFrom(query)
			if err != nil {
				return
			}
			end := 12 // of the question: a name, its type and its class
			for end < n && query[end] != 0 {
				end += int(query[end]) + 1
			}
			end += 5
			const noSuchName, typeA = 3, 1
			answer := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end]...)
			switch isA := binary.BigEndian.Uint16(query[end-4:]) == typeA; {
			case !known.Load():
				answer[3] |= noSuchName
			case isA:
				answer[7] = 1
				answer = append(answer, 0xc0, 12, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1)
			}
			if _, err := socket.WriteTo(answer, from); err != nil {
				return
			}
		}
	}()
	return socket.LocalAddr().String()
}

var (
	nameServer atomic.Pointer[string] // the DNS server of these tests; nil: that of the machine
	queries    atomic.Int32           // how often it was dialled
)

// TestMain sets the resolver before any goroutine can use it.
func TestMain(m *testing.M) {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		if server := nameServer.Load(); server != nil {
			queries.Add(1)
			network, addr = "udp", *server
		}
		return d.DialContext(ctx, network, addr)
	}}
	os.Exit(m.Run())
}

// TestListenAddress: an address that the user has given, and localhost, stay what they are.
func TestListenAddress(t *testing.T) {
	for _, rendezvous := range []string{
		"127.0.0.1:7000", "[::1]:7000", "localhost:7000", "LOCALHOST.:7000", ":7000", "10.0.0.1:7000", "ip6-localhost:7000", "no port",
	} {
		if got := listenAddress(t.Context(), rendezvous); got != rendezvous {
			t.Errorf("%s: node 0 listens at %s", rendezvous, got)
		}
	}
}

// Node 0 and another node whose --rendezvous names a host that DNS does not know yet try again until it does. Node 0 says so
// immediately.
func TestNameKnownLater(t *testing.T) {
	var known atomic.Bool
	server := serveName(t, &known)
	nameServer.Store(&server)
	defer nameServer.Store(nil)
	queries.Store(0)
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	secret, stderr := filepath.Join(t.TempDir(), "secret"), filepath.Join(t.TempDir(), "stderr")
	if err := os.WriteFile(secret, []byte(strings.Repeat("secret!\n", 5)), 0o600); err != nil {
		t.Fatal(err)
	}
	shown, err := os.Create(stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer shown.Close()
	var joined sync.WaitGroup
	for node := range 2 {
		joined.Go(func() {
			o := &cli.Options{Nodes: 2, Node: node, Rendezvous: fmt.Sprintf("head.ibrun.test.:%d", port), SecretFile: secret}
			cl, err := JoinNodes("n", o, Peers{}, console.Streams{Err: shown})
			if err != nil {
				t.Errorf("node %d: %v", node, err)
				return
			}
			if node == 0 { // the name is that of a loopback address
				if at := hostOf(cl.listener.Addr()); at != "::" && at != "0.0.0.0" {
					t.Errorf("node 0 listens at %s, want all addresses", at)
				}
			}
			cl.Abort(errors.New("the test is over"))
		})
	}
	const want = "no such host; trying again for 1m0s (--join-timeout; --rendezvous names an address of node 0)\n"
	waittest.UntilNil(t, "the name is looked up again", func() error {
		text, err := os.ReadFile(stderr)
		if n := queries.Load(); err == nil && (n <= 20 || !strings.Contains(string(text), want)) {
			err = fmt.Errorf("%d queries; node 0 printed %q, want %q", n, text, want)
		}
		return err
	})
	known.Store(true)
	joined.Wait()
}
