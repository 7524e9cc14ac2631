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

	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/internal/tunables"
	"github.com/ibrun/ibrun/internal/waittest"
)

// serveNames starts a DNS server, and makes it that of the test. The server answers each query for IPv4 with the addresses that
// the function returns, whatever the name is. If there are none, the name does not exist. Names have no addresses of IPv6.
func serveNames(t *testing.T, addresses func() [][4]byte) {
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
			switch found := addresses(); {
			case len(found) == 0:
				answer[3] |= noSuchName
			case binary.BigEndian.Uint16(query[end-4:]) == typeA:
				answer[7] = byte(len(found))
				for _, a := range found {
					answer = append(answer, 0xc0, 12, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4, a[0], a[1], a[2], a[3])
				}
			}
			if _, err := socket.WriteTo(answer, from); err != nil {
				return
			}
		}
	}()
	server := socket.LocalAddr().String()
	nameServer.Store(&server)
	t.Cleanup(func() { nameServer.Store(nil) })
	queries.Store(0)
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
		if got, err := listenAddress(t.Context(), rendezvous); err != nil || got != rendezvous {
			t.Errorf("%s: node 0 listens at %s, %v", rendezvous, got, err)
		}
	}
}

// TestListenAddressOfName: node 0 listens at an address of its name that other hosts reach, and at all addresses if it has none.
func TestListenAddressOfName(t *testing.T) {
	var found atomic.Pointer[[][4]byte]
	serveNames(t, func() [][4]byte { return *found.Load() })
	for _, c := range []struct {
		found [][4]byte
		want  string
	}{
		{[][4]byte{{127, 0, 1, 1}}, ":7000"},
		{[][4]byte{{192, 0, 2, 1}}, "192.0.2.1:7000"},
		{[][4]byte{{127, 0, 1, 1}, {192, 0, 2, 1}}, "192.0.2.1:7000"},
	} {
		found.Store(&c.found)
		if got, err := listenAddress(t.Context(), "node0.ibrun.test.:7000"); err != nil || got != c.want {
			t.Errorf("the name has the addresses %v: node 0 listens at %q, %v; want %q", c.found, got, err, c.want)
		}
	}
}

// TestNameLookedUpOnce: DNS knows the name of node 0 from the second look-up on, as that of a loopback address. Then node 0
// listens at all addresses.
func TestNameLookedUpOnce(t *testing.T) {
	var asked atomic.Int32
	serveNames(t, func() [][4]byte {
		if asked.Add(1) <= 2 { // one for IPv4 and one for IPv6
			return nil
		}
		return [][4]byte{{127, 0, 0, 1}}
	})
	shown, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer shown.Close()
	set := &JoinSettings{Nodes: 2, Rendezvous: "node0.ibrun.test.:0", Timeout: DefaultJoinTimeout,
		Heartbeat: tunables.DefaultHeartbeat}
	l, err := listen(t.Context(), control.Security{}, set, console.Streams{Err: shown})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if at := hostOf(l.Addr()); at != "::" && at != "0.0.0.0" {
		t.Errorf("node 0 listens at %s, want all addresses", at)
	}
}

// Node 0 and another node whose --rendezvous names a host that DNS does not know yet try again until it does. Node 0 says so
// immediately.
func TestNameKnownLater(t *testing.T) {
	var known atomic.Bool
	serveNames(t, func() [][4]byte {
		if !known.Load() {
			return nil
		}
		return [][4]byte{{127, 0, 0, 1}}
	})
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
			set := &JoinSettings{Name: "n", Nodes: 2, Node: node, Rendezvous: fmt.Sprintf("node0.ibrun.test.:%d", port),
				SecretFile: secret, Timeout: DefaultJoinTimeout, Heartbeat: tunables.DefaultHeartbeat}
			cl, err := JoinNodes(set, Peers{}, console.Streams{Err: shown})
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
