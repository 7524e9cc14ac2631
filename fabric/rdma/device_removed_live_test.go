//go:build linux

package rdma

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/soft-roce/link"
	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs"
)

// TestLiveDeviceRemoved: the device is deleted while messages are in flight. Linux 6.1 waits until the device is not used any
// more. Later kernels remove it, and the domain reports that. In any case the domain can be closed, and nothing hangs.
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
	w := openLocalPeers(t, Settings{Devices: []string{"gone"}})
	w.send(0, 0)
	w.until("the message", func() bool { return w.got[1] == 1 })
	deleted := make(chan error, 1)
	go func() { deleted <- link.Delete("gone") }() // the kernel waits until the device is not used any more
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
