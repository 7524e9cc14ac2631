package main

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/internal/freeport"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
)

// line is a line that ibv_rc_pingpong sends, and address is the same address decoded.
const line = "0000:000011:fd94e0:00000000000000000000ffff0a4d0001\x00"

var address = verbs.Address{QPN: 0x11, PSN: 0xfd94e0, GID: netip.MustParseAddr("::ffff:10.77.0.1")}

func TestLine(t *testing.T) {
	if got := string(encode(address)); got != line {
		t.Errorf("encoded: %q, want %q", got, line)
	}
	if got, err := decode([]byte(line)); got != address || err != nil {
		t.Errorf("decoded: %+v, %v, want %+v", got, err, address)
	}
	infiniBand := verbs.Address{LID: 0xc0de, QPN: 1<<24 - 1}
	if got, err := decode(encode(infiniBand)); got != infiniBand || err != nil {
		t.Errorf("without a GID: %+v, %v, want %+v", got, err, infiniBand)
	}
}

func TestLinePrefixes(t *testing.T) {
	for n := range len(line) {
		if a, err := decode([]byte(line[:n])); err == nil {
			t.Errorf("%q was decoded as %+v", line[:n], a)
		}
	}
	for i := range len(line) {
		b := []byte(line)
		b[i] = 'x'
		if a, err := decode(b); err == nil {
			t.Errorf("%q was decoded as %+v", b, a)
		}
	}
}

func FuzzLine(f *testing.F) {
	f.Add([]byte(line))
	f.Add([]byte(strings.ToUpper(line)))
	f.Add([]byte("+000:-00001:00_000:00000000000000000000000000000000\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decode(b)
		if err == nil && !bytes.EqualFold(encode(a), b) {
			t.Errorf("%q was decoded as %+v, which is %q", b, a, encode(a))
		}
	})
}

// scriptedConn is a connection with fixed input. It stores its output.
type scriptedConn struct {
	io.Reader
	written bytes.Buffer
}

func (s *scriptedConn) Write(p []byte) (int, error) { return s.written.Write(p) }

func ignore([]verbs.Address) error { return nil }

// TestHandshake: each side must send its lines at the right time: first the client, then the server once it is connected, and
// finally the client sends "done".
func TestHandshake(t *testing.T) {
	local := []verbs.Address{{QPN: 1}, {QPN: 2, PSN: 3}}
	lines := string(encode(local[0])) + string(encode(local[1])) + string(encode(verbs.Address{}))
	for _, server := range []bool{true, false} {
		conn := &scriptedConn{Reader: strings.NewReader(line + line + line + doneMessage)}
		var early string // output before the queue pairs were connected
		connect := func([]verbs.Address) error { early = conn.written.String(); return nil }
		remote, err := handshake(conn, server, 3, local, connect)
		if err != nil || len(remote) != 3 || remote[0] != address || remote[1] != address {
			t.Errorf("server %v: received %+v, %v", server, remote, err)
		}
		wantEarly, want := "", lines
		if !server {
			wantEarly, want = lines, lines+doneMessage
		}
		if early != wantEarly || conn.written.String() != want {
			t.Errorf("server %v: sent %q before connecting, %q in total", server, early, conn.written.String())
		}
	}
}

// TestHandshakePrefixes: the client may disconnect after any byte.
func TestHandshakePrefixes(t *testing.T) {
	all := line + doneMessage
	for n := range len(all) {
		_, err := handshake(&scriptedConn{Reader: strings.NewReader(all[:n])}, true, 1, []verbs.Address{{}}, ignore)
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after the input %q: %v", all[:n], err)
		}
	}
	_, err := handshake(&scriptedConn{Reader: strings.NewReader(line + "nope\x00")}, true, 1, []verbs.Address{{}}, ignore)
	if err == nil {
		t.Error("a client that ended with another word was accepted")
	}
}

func TestHandshakeRefused(t *testing.T) {
	conn := &scriptedConn{Reader: strings.NewReader(line + doneMessage)}
	refused := errors.New("refused")
	_, err := handshake(conn, true, 1, []verbs.Address{{}}, func([]verbs.Address) error { return refused })
	if !errors.Is(err, refused) {
		t.Errorf("got %v, want %v", err, refused)
	}
	if conn.written.Len() > 0 {
		t.Errorf("sent %q, though the queue pair was not connected", conn.written.String())
	}
}

// TestDial runs both sides over TCP.
func TestDial(t *testing.T) {
	client, server := dialBoth(t)
	for errors.Is(server, syscall.EADDRINUSE) { // another program has taken the port
		client, server = dialBoth(t)
	}
	if client != nil {
		t.Errorf("client: %v", client)
	}
	if server != nil {
		t.Errorf("server: %v", server)
	}
}

// dialBoth runs both sides on a port that was free.
func dialBoth(t *testing.T) (client, server error) {
	port, err := freeport.TCP()
	if err != nil {
		t.Fatal(err)
	}
	o := options{tcpPort: port}
	connect := func(o options) error {
		conn, err := dial(t.Context(), o)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = handshake(conn, o.host == "", 1, []verbs.Address{address}, ignore)
		return err
	}
	served := make(chan error, 1)
	go func(server options) { served <- connect(server) }(o)
	o.host = "127.0.0.1"
	ended := false
	waittest.Until(t, "the server listens, or ends", func() bool {
		client = connect(o)
		select {
		case server = <-served:
			ended = true
		default:
		}
		return ended || !errors.Is(client, syscall.ECONNREFUSED)
	})
	if !ended {
		server = waittest.Receive(t, "the server ends", served)
	}
	return client, server
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-t", "ud", "-g", "3", "peer"}, io.Discard)
	if err != nil || o.pairs != 1 || o.host != "peer" || o.gid != 3 || o.transport() != verbs.UD {
		t.Errorf("got %+v, %v", o, err)
	}
	o, err = parse([]string{"-t", "srq", "-m", "4096"}, io.Discard)
	if err != nil || o.pairs != 16 || o.pathMTU() != verbs.MTU4096 || o.transport() != verbs.RC {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, bad := range []string{"-t xrc", "-m 1000", "-s -1", "-n 0", "-t srq -q 65", "-r 0", "a b", "-frob"} {
		var stderr bytes.Buffer
		if _, err := parse(strings.Fields(bad), &stderr); err == nil || stderr.Len() == 0 {
			t.Errorf("%s: error %v, and standard error was %q", bad, err, stderr.String())
		}
	}
}
