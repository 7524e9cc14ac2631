//go:build linux

package rdma_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma"
	"github.com/ibrun/ibrun/soft-roce/live"
)

// TestMain runs the test program as peer 1 if its arguments say so.
func TestMain(m *testing.M) {
	if len(os.Args) == 6 && os.Args[1] == "peer" {
		if err := peerMain(os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
			fmt.Fprintln(os.Stderr, "peer:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// heartbeat is that of the test and of the other peer by default. Lost peers are found within two times that.
const heartbeat = 3 * time.Second

// regionBytes is how much memory the other peer registers by default.
const regionBytes = 4 << 20

func pattern(i int) byte { return byte(i*7 + i>>11) }

// sumRequest is a message that the other peer answers with the checksum of its memory.
const sumRequest = "checksum?"

// peerMain is peer 1 of 2: it sends the key of its memory to peer 0, returns the messages of peer 0, and exits when peer 0 has
// gone.
func peerMain(keyText, addrText, bytesText, heartbeatText string) error {
	beat, err := time.ParseDuration(heartbeatText)
	t := &rdma.Transport{Settings: rdma.Settings{Heartbeat: beat}}
	key, err1 := hex.DecodeString(keyText)
	addr, err2 := hex.DecodeString(addrText)
	size, err3 := strconv.Atoi(bytesText)
	if err := errors.Join(err, err1, err2, err3); err != nil {
		return err
	}
	copy(t.Key[:], key)
	d, err := t.Open(context.Background(), &fabric.Config{Self: 1, Size: 2})
	if err != nil {
		return err
	}
	defer d.Close()
	mem := make([]byte, size)
	for i := range mem {
		mem[i] = pattern(i)
	}
	region, err := d.Register(mem)
	if err != nil {
		return err
	}
	fmt.Printf("ADDR %x\n", d.Addr())
	ep, err := d.Connect(0, addr)
	if err != nil {
		return err
	}
	remote := binary.LittleEndian.AppendUint64(nil, region.Remote.Addr)
	unsent := [][]byte{binary.LittleEndian.AppendUint64(remote, region.Remote.Key)}
	evs := make([]fabric.Event, 8)
	for {
		for len(unsent) > 0 && err == nil {
			if err = ep.Send(unsent[0], nil); err == nil {
				unsent = unsent[1:]
			}
		}
		if err != nil && err != fabric.ErrAgain {
			return err
		}
		var n int
		if n, err = d.Poll(evs); err != nil {
			return err
		}
		for _, ev := range evs[:n] {
			if ev.Kind == fabric.PeerDown {
				return nil
			}
			if string(ev.Data) == sumRequest {
				sum := sha256.Sum256(mem)
				unsent = append(unsent, sum[:])
			} else {
				unsent = append(unsent, bytes.Clone(ev.Data))
			}
		}
		if n == 0 && len(unsent) == 0 {
			if err := sleep(d); err != nil {
				return err
			}
		}
	}
}

// sleep sleeps until there is an event, or for 50 ms.
func sleep(d fabric.Domain) error {
	fd, ready, err := d.Arm()
	if err == nil && !ready {
		var set syscall.FdSet
		set.Bits[fd/64] |= 1 << (fd % 64)
		_, err = syscall.Select(fd+1, &set, nil, nil, &syscall.Timeval{Usec: 50_000})
		if errors.Is(err, syscall.EINTR) {
			err = nil
		}
	}
	return err
}

// peerProcess is peer 0 in this process, with another process as peer 1.
type peerProcess struct {
	t      *testing.T
	d      fabric.Domain
	ep     fabric.Endpoint
	remote fabric.RemoteKey
	bytes  int // registered by peer 1
	other  *exec.Cmd
	evs    [8]fabric.Event
	got    [][]byte
	done   map[uint64]error
	down   error
}

// start starts peer 1 on a node.
func start(t *testing.T, node live.Node) *peerProcess {
	t.Helper()
	return startWith(t, node, regionBytes, 0, heartbeat)
}

// startWith starts peer 1, which registers size bytes. retries is the retry count of the local device, unless it is 0.
// The heartbeat is that of both peers.
func startWith(t *testing.T, node live.Node, size int, retries uint8, beat time.Duration) *peerProcess {
	t.Helper()
	tr := peers(t, 1)[0].(*rdma.Transport)
	tr.Settings.Heartbeat = beat
	d, err := tr.Open(t.Context(), &fabric.Config{Self: 0, Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	if retries > 0 {
		rdma.SetRetries(d, retries)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &peerProcess{t: t, d: d, done: map[uint64]error{}, bytes: size}
	p.other = node.Command(exe, "peer", hex.EncodeToString(tr.Key[:]), hex.EncodeToString(d.Addr()), strconv.Itoa(size),
		beat.String())
	p.other.Stderr = os.Stderr
	out, err := p.other.StdoutPipe()
	if err == nil {
		err = p.other.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if p.down == nil {
			if err := p.other.Wait(); err != nil {
				t.Errorf("the other peer: %v", err)
			}
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, err2 := hex.DecodeString(strings.TrimSpace(strings.TrimPrefix(line, "ADDR ")))
	if err := errors.Join(err, err2); err != nil {
		t.Fatalf("the other peer printed %q: %v", line, err)
	}
	if p.ep, err = d.Connect(1, addr); err != nil {
		t.Fatal(err)
	}
	b := p.receive()
	p.remote = fabric.RemoteKey{Addr: binary.LittleEndian.Uint64(b), Key: binary.LittleEndian.Uint64(b[8:])}
	return p
}

// until polls until so returns true.
func (p *peerProcess) until(what string, so func() bool) {
	p.t.Helper()
	for end := time.Now().Add(5 * time.Minute); !so(); {
		n, err := p.d.Poll(p.evs[:])
		if err != nil {
			p.t.Fatalf("%s: %v", what, err)
		}
		for _, ev := range p.evs[:n] {
			switch ev.Kind {
			case fabric.Message:
				p.got = append(p.got, bytes.Clone(ev.Data))
			case fabric.Done:
				p.done[ev.Token] = ev.Err
			case fabric.PeerDown:
				p.down = ev.Err
			}
		}
		if p.down != nil && !so() {
			p.t.Fatalf("%s: %v", what, p.down)
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s does not happen", what)
		}
		if n == 0 {
			if err := sleep(p.d); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// pollFor polls for a time, in which the peer must not be lost.
func (p *peerProcess) pollFor(d time.Duration) {
	p.t.Helper()
	end := time.Now().Add(d)
	p.until("time", func() bool { return time.Now().After(end) })
}

func (p *peerProcess) receive() []byte {
	p.t.Helper()
	p.until("a message", func() bool { return len(p.got) > 0 })
	b := p.got[0]
	p.got = p.got[1:]
	return b
}

// echo sends messages and receives them back.
func (p *peerProcess) echo(count int) {
	p.t.Helper()
	size := func(i int) int { return i * 37 % p.d.Caps().MaxSend }
	for sent, back := 0, 0; back < count; {
		for sent < count {
			err := p.ep.Send(nil, bytes.Repeat([]byte{byte(sent)}, size(sent)))
			if err == fabric.ErrAgain {
				break
			}
			if err != nil {
				p.t.Fatal(err)
			}
			sent++
		}
		if b := p.receive(); !bytes.Equal(b, bytes.Repeat([]byte{byte(back)}, size(back))) {
			p.t.Fatalf("message %d came back as %d bytes", back, len(b))
		}
		back++
	}
}

// beginRead begins to read all memory that the other peer has registered.
func (p *peerProcess) beginRead(token uint64) []byte {
	p.t.Helper()
	b := make([]byte, p.bytes)
	region, err := p.d.Register(b)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.ep.Read(b, region, p.remote, token); err != nil {
		p.t.Fatal(err)
	}
	return b
}

// endRead waits for the end of a read and checks every byte.
func (p *peerProcess) endRead(token uint64, b []byte) {
	p.t.Helper()
	p.until("the end of the read", func() bool { _, ok := p.done[token]; return ok })
	if err := p.done[token]; err != nil {
		p.t.Fatal(err)
	}
	for i := range b {
		if b[i] != pattern(i) {
			p.t.Fatalf("byte %d of %d is %#x", i, len(b), b[i])
		}
	}
}

// TestLiveKilled: a peer that is killed is reported as down.
func TestLiveKilled(t *testing.T) {
	live.Device(t)
	p := start(t, live.Node{})
	p.echo(300)
	p.endRead(1, p.beginRead(1))
	if err := p.other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.other.Wait() // returns that it was killed
	p.until("the loss", func() bool { return p.down != nil })
	if !errors.Is(p.down, fabric.ErrPeerDown) || errors.Is(p.down, fabric.ErrPeerClosed) {
		t.Errorf("a peer that was killed is lost by: %v", p.down)
	}
	if err := p.ep.Send(nil, nil); !errors.Is(err, fabric.ErrPeerDown) {
		t.Errorf("sending to it: %v", err)
	}
}

// TestLiveStopped: a peer that is stopped for longer than the keepalive takes to find a lost peer is not down, and its memory
// can be read.
func TestLiveStopped(t *testing.T) {
	live.Device(t)
	p := start(t, live.Node{})
	p.echo(10)
	if err := p.other.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.endRead(1, p.beginRead(1))
	p.pollFor(2 * heartbeat)
	if err := p.other.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.echo(100)
	p.endRead(2, p.beginRead(2))
}

// TestLiveTwoNodes: messages and reads between two machines, also over a network that loses packets.
func TestLiveTwoNodes(t *testing.T) {
	nodes := live.Nodes(t, 2)
	p := start(t, nodes[1])
	p.echo(50)
	p.endRead(1, p.beginRead(1))
	p.echo(20)
}

// TestLiveLinkDown: the link is down for a second while much is in flight. The only effect is a delay.
func TestLiveLinkDown(t *testing.T) {
	nodes := live.Nodes(t, 2)
	p := start(t, nodes[1])
	p.echo(10)
	b := p.beginRead(1)
	for _, state := range []string{"down", "up"} {
		if out, err := exec.Command("ip", "link", "set", "eth0", state).CombinedOutput(); err != nil {
			t.Fatalf("set the link %s: %v %s", state, err, out)
		}
		p.pollFor(time.Second)
	}
	p.endRead(1, b)
	p.echo(20)
}

// TestLiveNodeKilled: a peer on another machine that is killed is reported as down.
func TestLiveNodeKilled(t *testing.T) {
	nodes := live.Nodes(t, 2)
	p := start(t, nodes[1])
	p.echo(20)
	if err := p.other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.other.Wait() // returns that it was killed
	p.until("the loss of peer 1 of "+strconv.Itoa(len(nodes)), func() bool { return p.down != nil })
}
