//go:build linux

package rdma

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
)

// TestLargePacketsLost: a network drops packets of the MTU of both ports, and passes those of Ethernet. Messages and reads of any
// length arrive, also with small messages between them, over connections with smaller packets. One line says so.
func TestLargePacketsLost(t *testing.T) {
	net, ds := openPorts(t, Settings{}, roce("10.0.0.1", verbs.MTU4096), roce("10.0.0.2", verbs.MTU4096))
	var said []string
	ds[0].report = func(text string) { said = append(said, text) }
	meet(t, ds[0], ds[1])
	if m := attr(t, ds[0], 1).MTU; m != verbs.MTU4096 {
		t.Fatalf("at first the MTU is %v", m)
	}
	net.LoseLarge(1500)
	src, dst := bytes.Repeat([]byte{7}, 100_000), make([]byte, 100_000)
	far, err1 := ds[1].Register(src)
	near, err2 := ds[0].Register(dst)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if _, err := ds[0].eps[1].Read(dst, near, far.Remote, 1); err != nil {
		t.Fatal(err)
	}
	got, sent, read := 0, 0, false
	sizes := []int{4000, 10, 5000, 10}
	waittest.Poll(t, "all messages arrive", func() bool {
		if sent < len(sizes) && ds[0].eps[1].Send(make([]byte, sizes[sent]), nil) == nil {
			sent++
		}
		for i, d := range ds {
			for _, ev := range pollTimes(t, d, 1) {
				switch {
				case i == 0 && ev.Kind == fabric.Done && ev.Err == nil:
					read = true
				case i == 1 && ev.Kind == fabric.Message && len(ev.Data) == sizes[got]:
					got++
				default:
					t.Fatalf("peer %d: %+v", i, ev)
				}
			}
		}
		return got == len(sizes) && read
	})
	if !bytes.Equal(src, dst) {
		t.Error("the memory that was read differs")
	}
	if a, b := attr(t, ds[0], 1).MTU, attr(t, ds[1], 0).MTU; a != verbs.MTU1024 || b != verbs.MTU1024 {
		t.Errorf("the MTU is %v and %v", a, b)
	}
	if len(said) != 1 || !strings.Contains(said[0], "IBRUN_RDMA_MTU=1024") {
		t.Errorf("reported: %q", said)
	}
}

// TestAllLargePacketsLost: if also packets of 1,024 bytes are lost, the peer is lost, even if small messages arrive all the time.
// The error says why.
func TestAllLargePacketsLost(t *testing.T) {
	net, ds := openPorts(t, Settings{}, roce("10.0.0.1", verbs.MTU4096), roce("10.0.0.2", verbs.MTU4096))
	a, b := ds[0], ds[1]
	meet(t, a, b)
	net.LoseLarge(500)
	mem := make([]byte, 100_000)
	far, err1 := b.Register(mem)
	near, err2 := a.Register(make([]byte, 100_000))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if _, err := b.eps[0].Write(mem, far, near.Remote, 1); err != nil {
		t.Fatal(err)
	}
	var down error
	waittest.Poll(t, "the peer is lost", func() bool {
		_ = b.eps[0].Send([]byte("small"), nil)
		pollTimes(t, a, 1)
		for _, ev := range pollTimes(t, b, 1) {
			if ev.Kind == fabric.PeerDown {
				down = ev.Err
			}
		}
		return down != nil
	})
	if !errors.Is(down, fabric.ErrPeerDown) || !strings.Contains(down.Error(), "large ones do not") {
		t.Errorf("%v", down)
	}
}
