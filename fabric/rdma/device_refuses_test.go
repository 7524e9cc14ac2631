//go:build linux

package rdma

import (
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

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
			s.probe++
			_ = ds[0].sendCM(ds[0].eps[1], cmProbe, qpInfo{}) // the link may be down
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
		last := s.probe
		waittest.Poll(t, "a probe is answered", func() bool {
			probe()
			pollTimes(t, ds[0], 2*maxFastPolls)
			return int32(s.answered-last) > 0
		})
		net.RefuseOn(nil)
	}
}

// TestSimulatedOwnAddress: when a device is opened, this host has no route to the address of the device. The device is used all
// the same. If it does not answer calls about its own address, or refuses what needs no route, it is not.
func TestSimulatedOwnAddress(t *testing.T) {
	for _, call := range []verbstest.SimulatedCall{verbstest.CallToRTR, verbstest.CallCreateAH, verbstest.CallSend} {
		for _, errno := range []syscall.Errno{syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ETIMEDOUT} {
			used := errno != syscall.ETIMEDOUT && call != verbstest.CallSend
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
