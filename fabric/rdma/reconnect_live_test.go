//go:build linux

package rdma

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/soft-roce/link"
	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs"
)

// twoOf opens two peers in this process and connects them to each other.
type twoOf struct {
	t   *testing.T
	d   [2]*domain
	ep  [2]fabric.Endpoint
	got [2]uint64 // messages that have arrived
	end map[uint64]error
}

func openTwo(t *testing.T, set Settings) *twoOf {
	t.Helper()
	if set.Devices == nil {
		set.Devices = []string{live.Device(t)}
	}
	tr := &Transport{Settings: set}
	rand.Read(tr.Key[:])
	w := &twoOf{t: t, end: map[uint64]error{}}
	for i := range w.d {
		d, err := tr.Open(t.Context(), &fabric.Config{Self: i, Size: 2})
		if err != nil {
			t.Fatal(err)
		}
		w.d[i] = d.(*domain)
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range w.d {
		var err error
		if w.ep[i], err = w.d[i].Connect(1-i, w.d[1-i].Addr()); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// poll polls both once. Messages are numbered, and must come in order.
func (w *twoOf) poll() {
	w.t.Helper()
	var evs [8]fabric.Event
	for i, d := range w.d {
		n, err := d.Poll(evs[:])
		if err != nil {
			w.t.Fatal(err)
		}
		for _, ev := range evs[:n] {
			switch ev.Kind {
			case fabric.Message:
				if got := binary.LittleEndian.Uint64(ev.Data); got != w.got[i] {
					w.t.Fatalf("peer %d got message %d in place of %d", i, got, w.got[i])
				}
				w.got[i]++
			case fabric.Done:
				w.end[ev.Token] = ev.Err
			default:
				w.t.Fatalf("%+v", ev)
			}
		}
	}
}

func (w *twoOf) until(what string, so func() bool) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); !so(); w.poll() {
		if time.Now().After(end) {
			w.t.Fatalf("%s does not come: %+v", what, w.d[0].eps[1])
		}
		runtime.Gosched()
	}
}

// send sends message n from peer i.
func (w *twoOf) send(i int, n uint64) {
	w.t.Helper()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	w.until("room", func() bool {
		err := w.ep[i].Send(b[:], nil)
		if err != nil && err != fabric.ErrAgain {
			w.t.Fatal(err)
		}
		return err == nil
	})
}

// TestLiveReconnect: a connection breaks, by requests that peers refuse and by queue pairs that are closed. Nothing is lost,
// nothing comes twice, and what was being read arrives.
func TestLiveReconnect(t *testing.T) {
	w := openTwo(t, Settings{})
	mem, dst := make([]byte, 1<<16), make([]byte, 1<<16)
	rand.Read(mem)
	far, err1 := w.d[1].Register(mem)
	near, err2 := w.d[0].Register(dst)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	var sent [2]uint64
	token := uint64(0)
	for round := range 6 {
		for range 100 {
			for i := range sent {
				w.send(i, sent[i])
				sent[i]++
			}
		}
		bad := far.Remote
		bad.Addr += 1 << 30
		token += 2
		for j, at := range []fabric.RemoteKey{bad, far.Remote} {
			if _, err := w.ep[0].Read(dst, near, at, token+uint64(j)); err != nil {
				t.Fatal(err)
			}
		}
		if round%2 == 1 { // the other side's pair fails, too
			if err := w.d[1].eps[0].qps[0].qp.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
				t.Fatal(err)
			}
		}
		w.until("the end of the reads", func() bool { return len(w.end) == int(token) })
		if err := w.end[token]; !errors.Is(err, verbs.StatusRemoteAccess) {
			t.Errorf("a read of what is not the peer's: %v", err)
		}
		if err := w.end[token+1]; err != nil || string(dst) != string(mem) {
			t.Errorf("the read after it: %v", err)
		}
		clear(dst)
	}
	w.until("all messages", func() bool { return w.got[0] == sent[1] && w.got[1] == sent[0] })
	if e := w.d[0].eps[1].conn.epoch; e < 6 {
		t.Errorf("epoch %d after six breaks", e)
	}
}

// TestLiveNoNAK: however many are sent, none finds the receiver without a slot.
func TestLiveNoNAK(t *testing.T) {
	live.NoNAK(t)
	for _, window := range []int{1, 3, 64} {
		w := openTwo(t, Settings{Window: window, Pool: window * 6912 * 2})
		for n := range uint64(2000) {
			for i := range w.d {
				w.send(i, n)
			}
		}
		w.until("all messages", func() bool { return w.got == [2]uint64{2000, 2000} })
	}
}

// TestLiveMemory: a connected peer costs at most 16 KiB besides its queue pair, and any other less than 100 bytes.
func TestLiveMemory(t *testing.T) {
	w := openTwo(t, Settings{})
	d := w.d[0]
	size := func(p any) int { return int(reflect.TypeOf(p).Elem().Size()) } // of what p points to
	if per := size(&d.eps[0]); per >= 100 {
		t.Errorf("a peer that is not connected costs %d bytes", per)
	}
	w.send(0, 0)
	w.until("the message", func() bool { return w.got[1] == 1 })
	e := w.d[0].eps[1]
	bytes := size(e) + size(e.qps[0]) + len(e.addr.rails)*size(&e.addr.rails[0]) + size(e.dest)
	bytes += 4*size(&e) + 2*size(&qpKey{}) // what the tables of the domain hold of it
	bytes += d.recvs.reserved * d.settings.Slot
	if d.recvs.reserved != initialWindow+1 || bytes > 16<<10 {
		t.Errorf("a connected peer has %d slots and costs %d bytes", d.recvs.reserved, bytes)
	}
	t.Logf("%d bytes, of which %d are slots", bytes, d.recvs.reserved*d.settings.Slot)
}

// TestLiveRails: with two devices a large transfer goes over both, in both directions, and also after the connection broke.
func TestLiveRails(t *testing.T) {
	live.Nodes(t, 1) // makes a device, which is not for a machine of one's own
	for _, args := range []string{
		"link add railtest0 type veth peer name railtest1", "addr add 10.99.0.1/24 dev railtest0",
		"link set railtest0 up", "link set railtest1 up",
	} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", args, err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "link", "delete", "railtest0").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	if err := link.Add("railtest", "railtest0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Delete("railtest"); err != nil {
			t.Error(err)
		}
	})
	w := openTwo(t, Settings{Devices: []string{live.Device(t) + ":1", "railtest"}})
	mem, dst := make([]byte, 3<<20+5), make([]byte, 3<<20+5)
	far, err1 := w.d[1].Register(mem)
	near, err2 := w.d[0].Register(dst)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for round := range uint64(4) {
		rand.Read(mem)
		move := w.ep[0].Read
		if round%2 == 1 {
			move = w.ep[0].Write
			rand.Read(dst)
		}
		if _, err := move(dst, near, far.Remote, round+1); err != nil {
			t.Fatal(err)
		}
		if round == 2 { // one rail fails with pieces under way
			if err := w.d[0].eps[1].qps[1].qp.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
				t.Fatal(err)
			}
		}
		w.until("the end", func() bool { return len(w.end) == int(round+1) })
		if err := w.end[round+1]; err != nil || string(dst) != string(mem) {
			t.Fatalf("round %d: %v, or other bytes", round, err)
		}
		if n := w.d[0].eps[1].qps[1].tail; n < 10 {
			t.Errorf("round %d: %d requests went over the second rail", round, n)
		}
		w.d[0].eps[1].breaks = 0
	}
	w.overEach(mem, dst, near, far)
}

// overEach reads mem into dst over one rail and then over the other.
func (w *twoOf) overEach(mem, dst []byte, near, far fabric.Region) {
	w.t.Helper()
	for rail := range 2 {
		rand.Read(mem)
		queues := w.d[0].eps[1].qps
		before := [2]uint32{queues[0].tail, queues[1].tail}
		token := uint64(rail + 100)
		if _, err := w.d[0].WithRail(w.ep[0], rail).Read(dst, near, far.Remote, token); err != nil {
			w.t.Fatal(err)
		}
		w.until("the end", func() bool { _, ok := w.end[token]; return ok })
		if err := w.end[token]; err != nil || string(dst) != string(mem) {
			w.t.Fatalf("rail %d: %v, or other bytes", rail, err)
		}
		pieces := uint32((len(mem)-1)/queues[rail].rail.piece + 1)
		there, elsewhere := queues[rail].tail-before[rail], queues[1-rail].tail-before[1-rail]
		if there < pieces || elsewhere >= pieces { // the keys of the second are read over the first, and hearts beat
			w.t.Errorf("over rail %d: %d requests for %d pieces, and %d over the other", rail, there, pieces, elsewhere)
		}
	}
	if w.d[0].WithRail(w.ep[0], 2) != w.ep[0] || w.d[0].WithRail(w.ep[0], -1) != w.ep[0] {
		w.t.Error("there is a way over a rail that is not there")
	}
}

// TestLiveDeviceRemoved: the device is deleted while messages are under way. Linux 6.1 waits until it is not used any more,
// later kernels take it away: then the domain says so. It can be closed in any case, and nothing hangs.
func TestLiveDeviceRemoved(t *testing.T) {
	live.Nodes(t, 1)
	if out, err := exec.Command("sh", "-c", `ip link add gone0 type veth peer name gone1 && ip addr add 10.98.0.1/24 dev gone0 &&
		ip link set gone0 up && ip link set gone1 up`).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "link", "delete", "gone0").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	if err := link.Add("gone", "gone0"); err != nil {
		t.Fatal(err)
	}
	w := openTwo(t, Settings{Devices: []string{"gone"}})
	w.send(0, 0)
	w.until("the message", func() bool { return w.got[1] == 1 })
	deleted := make(chan error, 1)
	go func() { deleted <- link.Delete("gone") }() // the kernel waits until nobody uses the device
	var evs [8]fabric.Event
	for i, d := range w.d {
		var err error
		for n := 0; err == nil && n < 10_000; n++ {
			if err = w.ep[i].Send(nil, nil); err == nil || err == fabric.ErrAgain {
				_, err = d.Poll(evs[:])
			}
		}
		if err != nil && !errors.Is(err, verbs.ErrDeviceLost) && !errors.Is(err, fabric.ErrPeerDown) {
			t.Errorf("peer %d: without its device: %v", i, err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("peer %d: close: %v", i, err)
		}
	}
	if err := <-deleted; err != nil {
		t.Error(err)
	}
}
