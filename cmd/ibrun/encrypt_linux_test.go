package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/threadtest"
)

// TestEncryptOnOneNode: if --encrypt is given to one of two nodes only, each of them says so and ends. Neither waits for the
// other: the time for joining is a minute.
func TestEncryptOnOneNode(t *testing.T) {
	t.Parallel()
	for encrypts, want := range [2][2]string{
		{"node 1 at 127.0.0.1:", "node 0 at 127.0.0.1:"},
		{"node 1 at 127.0.0.1:", "node 0 at 127.0.0.1:"},
	} {
		ns := newNodes(t, 2)
		for k := range ns.n {
			args := []string{"-n", "2", "rank", "pmi"}
			if k == encrypts {
				args = append([]string{"--encrypt"}, args...)
			}
			ns.list[k] = startCommand(t, 0, ns.command(k, args...))
		}
		for k, p := range ns.list {
			p.wantCode(2, want[k])
			with := "was started without --encrypt, and this node with it: give --encrypt to all nodes, or to none"
			if k != encrypts {
				with = "was started with --encrypt, and this node without it: give --encrypt to all nodes, or to none"
			}
			if text := p.stderrInTime(); !strings.Contains(text, with) || strings.Count(text, "\n") != 1 {
				t.Errorf("node %d wrote %q", k, text)
			}
		}
	}
}

// TestEncryptedNodes: a job whose nodes encrypt runs, and its ranks know that they have to encrypt.
func TestEncryptedNodes(t *testing.T) {
	t.Parallel()
	ns := newNodes(t, 3).start(0, "--encrypt", "-n", "4", "rank", "pmi")
	ns.wantCode(0, "")
	newNodes(t, 2).start(0, "-n", "2", "--encrypt", "sh", "-c", "test $IBRUN_ENCRYPT = 1").wantCode(0, "")
	newNodes(t, 2).start(0, "-n", "2", "--encrypt", "rank", "exit", "7", "1").wantCode(7, "rank 1 on n1 ")
}

// capture returns a function that ends the capture of the network's interface, and returns all that has passed through it.
func (n network) capture(t *testing.T) func() []byte {
	t.Helper()
	fd, err := -1, error(nil)
	threadtest.Run(func() { fd, err = n.packetSocket() })
	if err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	var done sync.WaitGroup
	end := make(chan struct{})
	done.Go(func() {
		defer unix.Close(fd)
		packet := make([]byte, 1<<17)
		for ended := false; ; {
			n, _, err := unix.Recvfrom(fd, packet, 0)
			if err == nil {
				seen.Write(packet[:n])
			} else if ended { // and nothing is left in the socket
				return
			}
			select {
			case <-end:
				ended = true
			default:
			}
		}
	})
	return func() []byte {
		close(end)
		done.Wait()
		return seen.Bytes()
	}
}

// packetSocket returns a socket that receives all that passes through the interface. The thread stays in the network namespace.
func (n network) packetSocket() (int, error) {
	space, err := os.Open("/run/netns/" + n.name)
	if err != nil {
		return -1, err
	}
	defer space.Close()
	if err := unix.Setns(int(space.Fd()), unix.CLONE_NEWNET); err != nil {
		return -1, os.NewSyscallError("setns", err)
	}
	i, err := net.InterfaceByName("eth0")
	if err != nil {
		return -1, err
	}
	all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all))
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	err = os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: i.Index}))
	if err == nil {
		pause := unix.Timeval{Usec: 10000} // of a read
		err = os.NewSyscallError("setsockopt", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &pause))
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, err
}

// readable reports whether a text is among the bytes, as it is or in base64.
func readable(seen []byte, text string) bool {
	found := bytes.Contains(seen, []byte(text))
	for shift := range 3 { // the text may begin at any of three places of a group
		group := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + text))
		found = found || bytes.Contains(seen, []byte(group[4:len(group)-4]))
	}
	return found
}

// TestNothingToRead: on the wire between two nodes, the messages of ranks, their PMI values and the last output of a rank that
// failed can be read. With --encrypt none of them can.
func TestNothingToRead(t *testing.T) {
	t.Parallel()
	site := newSite(t, 2)
	run := func(code int, args ...string) []byte {
		ns := newNodes(t, 2)
		_, port, _ := strings.Cut(ns.addr, ":")
		ns.addr = site[0].addr + ":" + port
		seen := site[0].capture(t)
		args = append([]string{"-n", "2", "--tcp-interfaces", "198.18.0.0/15"}, args...)
		for k := range ns.list {
			ns.list[k] = startCommand(t, 0, site[k].inside(ns.command(k, args...)))
		}
		ns.wantCode(code, "")
		return seen()
	}
	for _, c := range []struct {
		canary string
		code   int
		args   []string
	}{
		{"canary-of-a-message", 0, []string{"rank", "whisper", "canary-of-a-message"}},
		{"canary-of-pmi", 0, []string{"-x", "CANARY=canary-of-pmi", "rank", "pmi"}},
		{"canary-of-output", 3, []string{"sh", "-c", "test $PMI_RANK = 0 && sleep 1000; echo canary-of-output >&2; exit 3"}},
	} {
		if seen := run(c.code, c.args...); !readable(seen, c.canary) {
			t.Errorf("%s is not among the %d bytes on the wire, without encryption", c.canary, len(seen))
		}
		if seen := run(c.code, append([]string{"--encrypt"}, c.args...)...); readable(seen, c.canary) || len(seen) == 0 {
			t.Errorf("%s is among the %d bytes on the wire, with --encrypt", c.canary, len(seen))
		}
	}
}
