//go:build linux

package rdma

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// refuseCalls makes a device refuse some calls from now on.
func refuseCalls(net *verbstest.SimulatedNetwork, device string, errno syscall.Errno, calls ...verbstest.SimulatedCall) {
	net.RefuseOn(func(name string, c verbstest.SimulatedCall) error {
		for _, call := range calls {
			if name == device && c == call {
				return errno
			}
		}
		return nil
	})
}

// TestSimulatedNoAccessAfterLoss: a device works, but its completions cannot be polled any more, and it refuses to stop or close
// queue pairs. When a read has ended because of that, the device does not access its memory any more.
func TestSimulatedNoAccessAfterLoss(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EBUSY, syscall.EINVAL, syscall.EIO} {
		for _, other := range []bool{false, true} {
			net := verbstest.NewSimulatedNetwork()
			ds := openEach(t, net, "a0", "b0")
			connectPeers(t, ds[0], ds[1])
			if other {
				ds[0].takeover.Await()
			}
			r := newReader(t, ds[0], ds[1], 1<<16)
			net.SetPaused(true)
			r.start()
			pollTimes(t, ds[0], 4)
			refuseCalls(net, "a0", errno, verbstest.CallPoll, verbstest.CallToErr, verbstest.CallDestroyQP)
			var ended error
			waittest.Poll(t, "the read ends", func() bool {
				for _, ev := range pollTimes(t, ds[0], 1) {
					if ev.Kind == fabric.Done {
						ended = ev.Err
					}
				}
				return ended != nil
			})
			net.SetPaused(false)
			if !bytes.Equal(r.dst, make([]byte, len(r.dst))) {
				t.Errorf("%v, another transport %v: the device has written after %v", errno, other, ended)
			}
			if _, err := ds[0].Register(make([]byte, 64)); other && !errors.Is(err, fabric.ErrNotSupported) {
				t.Errorf("%v: register: %v", errno, err)
			}
			net.RefuseOn(nil)
			closeAtOnce(ds)
		}
	}
}

// TestSimulatedSerializedLoss: goroutines write while the completions of the device cannot be polled any more, so that it counts
// as lost. The race detector checks that calls on a queue pair do not overlap, see verbs.QPConfig.Serialized.
func TestSimulatedSerializedLoss(t *testing.T) {
	net := verbstest.NewSimulatedAdapters(func() int { return 0 })
	ds := openEach(t, net, "a0", "b0")
	connectPeers(t, ds[0], ds[1])
	src := make([]byte, 64)
	far, err1 := ds[1].Register(make([]byte, 64))
	near, err2 := ds[0].Register(src)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			for token := uint64(0); ds[0].eps[1].ended.Load() == nil; token++ {
				if ds[0].poster.Transfers.Active.Load() < 16 {
					_, _ = ds[0].eps[1].Write(src, near, far.Remote, token) // fails once the peer is lost
				}
			}
		})
	}
	for range 100 {
		pollTimes(t, ds[0], 1)
		pollTimes(t, ds[1], 1)
	}
	refuseOn(net, "a0", verbstest.CallPoll, syscall.EINVAL)
	waittest.Poll(t, "the device counts as lost", func() bool {
		pollTimes(t, ds[0], 1)
		return ds[0].takeover.lost != nil
	})
	writers.Wait()
	net.RefuseOn(nil)
	closeAtOnce(ds)
}

// TestSimulatedResponderGoesOn: a device refuses to report completions to the goroutine that answers probes: for a while, with an
// error that may mean that the device is lost, or for good, while an answer that was sent without a link has made the queue pair
// fail. Probes are answered afterwards.
func TestSimulatedResponderGoesOn(t *testing.T) {
	for _, lasting := range []bool{false, true} {
		errno := syscall.EIO
		if lasting {
			errno = syscall.EBUSY
		}
		net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
		connectPeers(t, ds[0], ds[1])
		s := &ds[0].eps[1].retry.silence
		probe := func() {
			s.Probe++
			_ = ds[0].eps[1].sendCM(cm.Probe, cm.QP{}) // the link may be down
		}
		refused := make(chan struct{}, 1)
		net.RefuseOn(func(_ string, c verbstest.SimulatedCall) error {
			if c != verbstest.CallNotify {
				return nil
			}
			select {
			case refused <- struct{}{}:
			default:
			}
			return errno
		})
		probe()
		waittest.Receive(t, "the device refuses", refused)
		if lasting {
			probe()
			net.SetLinkDown(true)
			waittest.Receive(t, "the device refuses after a pause", refused)
			waittest.Receive(t, "the device refuses after a pause", refused)
			net.SetLinkDown(false)
		} else {
			net.RefuseOn(nil)
		}
		last := s.Probe
		waittest.Poll(t, "a probe is answered", func() bool {
			probe()
			pollTimes(t, ds[0], 2*maxFastPolls)
			return int32(s.Answered-last) > 0
		})
		net.RefuseOn(nil)
	}
}

// TestSimulatedOwnAddress: when a device is opened, this host has no route to the address of the device. The device is used all
// the same, unless it refuses what needs no route.
func TestSimulatedOwnAddress(t *testing.T) {
	for _, call := range []verbstest.SimulatedCall{verbstest.CallToRTR, verbstest.CallCreateAH, verbstest.CallSend} {
		for _, errno := range []syscall.Errno{syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ETIMEDOUT} {
			used := call != verbstest.CallSend
			net, calls := verbstest.NewSimulatedNetwork(), 0
			net.RefuseOn(func(_ string, c verbstest.SimulatedCall) error {
				if c != call || calls > 0 {
					return nil
				}
				calls++
				return errno
			})
			d, err := (&Transport{Settings: Settings{Devices: []string{"a"}}, Network: net.Node()}).Open(t.Context(),
				&fabric.Config{Self: 0, Size: 2})
			if calls != 1 || used != (err == nil) {
				t.Errorf("%v, %v: %v, %d calls", call, errno, err, calls)
			}
			if err == nil {
				err = d.Close()
			}
			if used && err != nil {
				t.Error(err)
			}
		}
	}
}

// TestSimulatedCloseRefused: a device refuses to be polled while the domain is closed. As with a lost device, that is not an
// error.
func TestSimulatedCloseRefused(t *testing.T) {
	net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
	connectPeers(t, ds[0], ds[1])
	refuseOn(net, "a", verbstest.CallPoll, syscall.EINVAL)
	if err := ds[0].Close(); err != nil {
		t.Error(err)
	}
	net.RefuseOn(nil)
}

// TestSimulatedPortDemanded: a device and its port are named, but the port does not exist, or has no link. The error says so, and
// which setting names it.
func TestSimulatedPortDemanded(t *testing.T) {
	for device, want := range map[string]string{
		"a":   "device a cannot be used: port: no port is active; is the link up?",
		"a:1": "device a cannot be used: port: a:1 is demanded, but is not active; is its link up?",
		"a:9": "device a cannot be used: port: a:9 is demanded, but its ports are 1 to 1",
	} {
		net := verbstest.NewSimulatedNetwork()
		setPort(net, "a", verbs.PortDown)
		err := openRefused(t, &Transport{Settings: Settings{Devices: []string{device}}, Network: net.Node()})
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "IBRUN_RDMA_DEVICES") {
			t.Errorf("%s: %v", device, err)
		}
	}
}

// TestSimulatedLongGIDTable: the only address of a port has an index that no connection can name. The device is not used, and the
// error says why.
func TestSimulatedLongGIDTable(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	net.SetPort("a", verbstest.SimulatedPort{GIDs: []hw.GID{{Index: 300, Type: hw.GIDRoCEv2, Netdev: "eth0",
		Addr: netip.MustParseAddr("2001:db8::1")}}})
	err := openRefused(t, &Transport{Settings: Settings{Devices: []string{"a"}}, Network: net.Node()})
	if !strings.Contains(err.Error(), "device a") || !strings.Contains(err.Error(), "index is above 255") {
		t.Error(err)
	}
}

// openRefused returns the error of opening a device that cannot be used.
func openRefused(t *testing.T, tr *Transport) error {
	t.Helper()
	d, err := tr.Open(t.Context(), &fabric.Config{Self: 0, Size: 2})
	if err == nil {
		t.Fatal(errors.Join(errors.New("the device was opened"), d.Close()))
	}
	return err
}
