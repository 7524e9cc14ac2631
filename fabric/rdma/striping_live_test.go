//go:build linux

package rdma

import (
	"crypto/rand"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/soft-roce/link"
	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs"
)

// TestLiveRails: with two devices, a large transfer uses both, in both directions, also after the connection broke.
func TestLiveRails(t *testing.T) {
	live.Nodes(t, 1) // the test creates a device, so it must not run on a development machine
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
	w := openLocalPeers(t, Settings{Devices: []string{live.Device(t) + ":1", "railtest"}})
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
		if round == 2 { // one rail fails with pieces in flight
			if err := w.d[0].eps[1].lanes.Queues[1].QP.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
				t.Fatal(err)
			}
		}
		w.until("the end", func() bool { return len(w.done) == int(round+1) })
		if err := w.done[round+1]; err != nil || string(dst) != string(mem) {
			t.Fatalf("round %d: %v, or wrong bytes", round, err)
		}
		if n := w.d[0].eps[1].lanes.Queues[1].Next(); n < 10 {
			t.Errorf("round %d: %d requests went over the second rail", round, n)
		}
		w.d[0].eps[1].retry.Failed = 0
	}
	w.readOverEach(mem, dst, near, far)
}

// readOverEach reads mem into dst over one rail and then over the other.
func (w *localPeers) readOverEach(mem, dst []byte, near, far fabric.Region) {
	w.t.Helper()
	for rail := range 2 {
		rand.Read(mem)
		queues := w.d[0].eps[1].lanes.Queues
		before := [2]uint32{queues[0].Next(), queues[1].Next()}
		token := uint64(rail + 100)
		if _, err := w.d[0].WithRail(w.ep[0], rail).Read(dst, near, far.Remote, token); err != nil {
			w.t.Fatal(err)
		}
		w.until("the end", func() bool { _, ok := w.done[token]; return ok })
		if err := w.done[token]; err != nil || string(dst) != string(mem) {
			w.t.Fatalf("rail %d: %v, or wrong bytes", rail, err)
		}
		pieces := uint32((len(mem)-1)/queues[rail].Rail.Piece + 1)
		there, elsewhere := queues[rail].Next()-before[rail], queues[1-rail].Next()-before[1-rail]
		if there < pieces || elsewhere >= pieces { // the first rail also carries key reads and keepalives
			w.t.Errorf("over rail %d: %d requests for %d pieces, and %d over the other", rail, there, pieces, elsewhere)
		}
	}
	if w.d[0].WithRail(w.ep[0], 2) != w.ep[0] || w.d[0].WithRail(w.ep[0], -1) != w.ep[0] {
		w.t.Error("WithRail has returned an endpoint for a rail that does not exist")
	}
}
