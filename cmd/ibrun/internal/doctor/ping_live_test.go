package doctor

import (
	"os"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/soft-roce/live"
)

// A byte is sent from a real port to itself, and the checks of RDMA devices report the device as good.
func TestLivePing(t *testing.T) {
	device := live.Device(t)
	top, err := hw.Local()
	if err != nil {
		t.Fatal(err)
	}
	pings := pingPorts(top.RDMA)
	if len(pings) == 0 {
		t.Fatal("nothing was sent")
	}
	for _, p := range pings {
		if p.Err != nil || p.Time <= 0 {
			t.Errorf("%s to %s: %v, %v", p.From, p.To, p.Time, p.Err)
		}
	}
	r, err := examine("", nil, os.Environ(), "ibrun")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"verbs.device", "verbs.open", "verbs.library", "port.state", "gid.choice", "reach.ports"} {
		if f := of(r, id); f.Severity != OK || id != "reach.ports" && !strings.Contains(f.Evidence, device) {
			t.Errorf("%s: %+v, want an ok about %s", id, f, device)
		}
	}
}

// Nothing is sent through a device that cannot be opened.
func TestLiveAccessError(t *testing.T) {
	device := live.Device(t)
	top, err := hw.Local()
	if err != nil {
		t.Fatal(err)
	}
	for i := range top.RDMA {
		top.RDMA[i].AccessError = &hw.AccessError{Device: device, Reason: "closed", Err: os.ErrPermission}
	}
	if pings := pingPorts(top.RDMA); len(pings) > 0 {
		t.Errorf("sent %v through a device that cannot be opened", pings)
	}
}
