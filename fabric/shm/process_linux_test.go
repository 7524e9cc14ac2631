package shm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/waittest"
)

// Roles of processes.
const (
	roleExchange   = "chatter" // sends a message to all peers, receives one from each, closes
	roleFlood      = "flooder" // sends to peer 0 for ever
	roleUnreadable = "secret"  // cannot be read from; sends an address to peer 0
	roleReader     = "reader"  // tries to read there
	roleIdle       = "idle"    // does nothing
	roleConnected  = "linked"  // sends one message to all peers, then does nothing
)

// TestMain lets the test binary also be one peer.
func TestMain(m *testing.M) {
	role := os.Getenv("SHM_TEST_ROLE")
	if role == "" {
		os.Exit(m.Run())
	}
	go func() { // the other end of stdin closes with the test
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	if err := runPeer(role); err != nil {
		fmt.Fprintln(os.Stderr, role, err)
		os.Exit(1)
	}
}

// runPeer is the main function of a peer.
func runPeer(role string) error {
	self, err := strconv.Atoi(os.Getenv("SHM_TEST_SELF"))
	if err != nil {
		return err
	}
	size, err := strconv.Atoi(os.Getenv("SHM_TEST_SIZE"))
	if err != nil {
		return err
	}
	tr := &Transport{Tracer: os.Getppid()}
	for i := range size {
		tr.Local = append(tr.Local, i)
	}
	copy(tr.Key[:], os.Getenv("SHM_TEST_KEY"))
	if role == roleUnreadable {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return err
		}
	}
	d, err := tr.Open(context.Background(), &fabric.Config{Self: self, Size: size})
	if err != nil {
		return err
	}
	switch role {
	case roleExchange:
		err = exchange(d, self, size)
	case roleFlood:
		err = flood(d)
	case roleUnreadable:
		err = publishBuffer(d)
	case roleReader:
		err = tryCopies(d)
	case roleIdle:
		select {}
	case roleConnected:
		if err = sendToAll(d, self, size); err == nil {
			select {}
		}
	}
	return errors.Join(err, d.Close())
}

// sendToAll sends a message to all peers.
func sendToAll(d fabric.Domain, self, size int) error {
	for to := range size {
		e, err := d.Connect(to, nil)
		if err != nil {
			return err
		}
		if err := e.Send([]byte{byte(self)}, nil); err != nil {
			return err
		}
	}
	return nil
}

// exchange sends a message to all peers, and returns when it has received one from each.
func exchange(d fabric.Domain, self, size int) error {
	if err := sendToAll(d, self, size); err != nil {
		return err
	}
	for received := 0; received < size; {
		ev, err := next(d)
		switch {
		case err != nil:
			return err
		case ev.Kind == fabric.Message && int32(ev.Data[0]) == ev.Peer:
			received++
		case ev.Kind != fabric.PeerDown || !errors.Is(ev.Err, fabric.ErrPeerClosed):
			return fmt.Errorf("%+v", ev)
		}
	}
	return nil
}

func flood(d fabric.Domain) error {
	e, err := d.Connect(0, nil)
	for err == nil || err == fabric.ErrAgain {
		err = e.Send(make([]byte, 700), nil)
	}
	return err
}

// publishBuffer sends the address of a buffer to peer 0, and waits until that has tried to read it.
func publishBuffer(d fabric.Domain) error {
	b := []byte("what no other process may read")
	e, err := d.Connect(0, nil)
	if err != nil {
		return err
	}
	r, err := d.Register(b)
	if err != nil {
		return err
	}
	if err := e.Send(binary.LittleEndian.AppendUint64(nil, r.Remote.Addr), nil); err != nil {
		return err
	}
	_, err = next(d)
	runtime.KeepAlive(b)
	return err
}

// tryCopies checks that Read and Write of the address from peer 1 are refused.
func tryCopies(d fabric.Domain) error {
	e, err := d.Connect(1, nil)
	if err != nil {
		return err
	}
	ev, err := next(d)
	if err != nil {
		return err
	}
	at := fabric.RemoteKey{Addr: binary.LittleEndian.Uint64(ev.Data)}
	for name, move := range map[string]func([]byte, fabric.Region, fabric.RemoteKey, uint64) (bool, error){
		"read": e.Read, "write": e.Write,
	} {
		if done, err := move(make([]byte, 10), fabric.Region{}, at, 0); done || !errors.Is(err, fabric.ErrNotSupported) {
			return fmt.Errorf("%s: %v, %w", name, done, err)
		}
	}
	return e.Send([]byte{1}, nil)
}

// peerProcess starts a peer in a process of its own.
func peerProcess(t *testing.T, role string, self, size int, key string, as *syscall.Credential) *exec.Cmd {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), "SHM_TEST_ROLE="+role, "SHM_TEST_KEY="+key, "GOMAXPROCS=1",
		fmt.Sprint("SHM_TEST_SELF=", self), fmt.Sprint("SHM_TEST_SIZE=", size))
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if _, err := c.StdinPipe(); err != nil { // held open by c
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestProcesses: peers in several processes find each other, in whatever order they start.
func TestProcesses(t *testing.T) {
	checkLeftovers(t)
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}} {
		key := rand.Text()
		var all []*exec.Cmd
		for _, self := range order {
			all = append(all, peerProcess(t, roleExchange, self, len(order), key, nil))
			waittest.Elapse(t, 10*time.Millisecond, "those that have started wait for the others; the result does not depend on it")
		}
		for i, c := range all {
			if err := c.Wait(); err != nil {
				t.Errorf("peer %d: %v", order[i], err)
			}
		}
	}
}

// TestKilled: a peer that is killed while it sends leaves nothing behind, and the other peer can continue.
func TestKilled(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	checkLeftovers(t)
	key := rand.Text()
	c := peerProcess(t, roleFlood, 1, 2, key, nil)
	tr := &Transport{Local: []int{0, 1}}
	copy(tr.Key[:], key)
	d, err := tr.Open(t.Context(), &fabric.Config{Self: 0, Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if ev, err := next(d); err != nil || len(ev.Data) != 700 {
			t.Fatal(ev, err)
		}
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err == nil {
		t.Error("the peer has exited by itself")
	}
	var evs [8]fabric.Event
	for range 2 * smallSpace / 700 {
		if _, err := d.Poll(evs[:]); err != nil {
			t.Fatal(err)
		}
	}
	e, err := d.Connect(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.Register(make([]byte, 10))
	if err != nil {
		t.Fatal(err)
	}
	if done, err := e.Read(make([]byte, 10), r, r.Remote, 0); done || !errors.Is(err, fabric.ErrPeerDown) {
		t.Errorf("read from a process that has exited: %v, %v", done, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if files, err := os.ReadDir(tmp); err != nil || len(files) != 0 {
		t.Errorf("temporary files: %v, %v", files, err)
	}
}

// TestUnreadable: if the kernel does not allow reading a peer's memory, Read and Write return ErrNotSupported.
func TestUnreadable(t *testing.T) {
	checkLeftovers(t)
	var as *syscall.Credential
	if os.Getuid() == 0 { // root is allowed everything
		as = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	key := rand.Text()
	a, b := peerProcess(t, roleReader, 0, 2, key, as), peerProcess(t, roleUnreadable, 1, 2, key, as)
	if err := errors.Join(a.Wait(), b.Wait()); err != nil {
		t.Error(err)
	}
}
