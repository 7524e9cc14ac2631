//go:build linux

package rdma

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/datagrams"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// slowHandles makes the first calls that create address handles block until end is called, and then fail with err. The calls of
// wrong code, which Poll waits for, end after waittest.Limit.
type slowHandles struct {
	calls, late atomic.Int32
	ended       chan struct{}
	end         func()
}

func newSlowHandles(t *testing.T, net *verbstest.SimulatedNetwork, first int32, err error) *slowHandles {
	t.Helper()
	h := &slowHandles{ended: make(chan struct{})}
	h.end = sync.OnceFunc(func() { close(h.ended) })
	net.Refuse(func(c verbstest.SimulatedCall) error {
		if c != verbstest.CallCreateAH || h.calls.Add(1) > first {
			return nil
		}
		limit := time.AfterFunc(waittest.Limit, func() {
			h.late.Add(1)
			h.end()
		})
		<-h.ended
		limit.Stop()
		return err
	})
	t.Cleanup(func() { // before the domains are closed
		h.end()
		net.Refuse(nil)
		if n := h.late.Load(); n > 0 {
			t.Errorf("%d calls had to end before Poll returned", n)
		}
	})
	return h
}

// TestPollWhileResolving: while the address of a peer is being resolved, Poll returns, and connects to another peer. Once the
// address is known, or the call has failed, the first peer is connected to as well.
func TestPollWhileResolving(t *testing.T) {
	for _, err := range []error{nil, syscall.ETIMEDOUT} {
		net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 3)
		a := ds[0]
		a.cm.Resolver.Patience = 0
		h := newSlowHandles(t, net, 1, err)
		if err := a.eps[1].Send(nil, nil); err == nil {
			t.Fatal("sent without a connection")
		}
		waittest.Poll(t, "the first call begins", func() bool {
			pollTimes(t, a, 1)
			return h.calls.Load() > 0
		})
		connectPeers(t, a, ds[2])
		if !a.eps[1].addr.IsResolving() || a.eps[1].attempt.requests == 0 {
			t.Errorf("while the address is being resolved: %+v", a.eps[1])
		}
		h.end()
		connectPeers(t, a, ds[1])
	}
}

// TestAcceptWhileResolving: a peer whose address is being resolved has sent a REQ. The REP is sent once the address is known.
func TestAcceptWhileResolving(t *testing.T) {
	net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
	a, b := ds[0], ds[1]
	if err := a.eps[1].Send(nil, nil); err == nil {
		t.Fatal("sent without a connection")
	}
	pollTimes(t, a, 4)
	b.cm.Resolver.Patience = 0
	h := newSlowHandles(t, net, 1, nil)
	waittest.Poll(t, "the REQ arrives", func() bool {
		pollTimes(t, b, 1)
		return b.eps[0].conn.State == cm.StateREPSent
	})
	h.end()
	waittest.Poll(t, "the address is known", func() bool {
		pollTimes(t, b, 1)
		return !b.eps[0].addr.IsResolving()
	})
	a.eps[1].retry.reqAt = liveness.Never // only one REQ was sent
	a.eps[1].d.cm.scheduleConnecting(a.eps[1])
	if pollTimes(t, a, enoughPolls); a.eps[1].conn.State != cm.StateEstablished {
		t.Errorf("after one REQ and one REP: state %d", a.eps[1].conn.State)
	}
}

// TestRefusedWhileResolving: a device refuses an address handle when Poll does not wait for it any more. That is a failed
// attempt, of the side that has sent a REQ or of the one that is to answer. The next one succeeds.
func TestRefusedWhileResolving(t *testing.T) {
	for slow := range 2 {
		net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
		e := ds[slow].eps[1-slow]
		if err := ds[0].eps[1].Send(nil, nil); err == nil {
			t.Fatal("sent without a connection")
		}
		if slow == 1 {
			pollTimes(t, ds[0], 4) // sends the REQ
		}
		ds[slow].cm.Resolver.Patience = 0
		h := newSlowHandles(t, net, 1, syscall.EINVAL)
		pollBoth(t, ds[slow:slow+1], "the call begins", func() bool { return h.calls.Load() > 0 })
		h.end()
		pollBoth(t, ds[slow:slow+1], "the attempt fails", func() bool { return e.retry.Failed > 0 })
		if err := e.retry.Failure(); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("side %d: %v", slow, err)
		}
		connectPeers(t, ds[0], ds[1])
	}
}

// TestManyUnresolved: the addresses of many peers are being resolved, and the first of them cannot be. Few calls are made at the
// same time, the others when these have ended. In the end all peers are connected.
func TestManyUnresolved(t *testing.T) {
	const peers = 3 * datagrams.MaxResolutions
	net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, peers+1)
	a := ds[0]
	a.cm.Resolver.Patience = 0
	h := newSlowHandles(t, net, datagrams.MaxResolutions, syscall.ETIMEDOUT)
	for peer := 1; peer <= peers; peer++ {
		if err := a.eps[peer].Send(nil, nil); err == nil {
			t.Fatal("sent without a connection")
		}
	}
	resolving := func() (begun, waiting int) {
		for _, e := range a.eps[1:] {
			if e.addr.IsWaiting() {
				waiting++
			} else if e.addr.IsResolving() {
				begun++
			}
		}
		return begun, waiting
	}
	waittest.Poll(t, "all calls begin", func() bool {
		pollTimes(t, a, 1)
		begun, _ := resolving()
		return begun == datagrams.MaxResolutions && h.calls.Load() == datagrams.MaxResolutions
	})
	if _, n := resolving(); n != peers-datagrams.MaxResolutions {
		t.Errorf("%d addresses wait", n)
	}
	h.end()
	for _, b := range ds[1:] {
		connectPeers(t, a, b)
	}
	for _, d := range ds[1:] {
		d.cm.Resolver.Patience = 0
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if begun, waiting := resolving(); begun+waiting != 0 {
		t.Errorf("in the end %d addresses are being resolved, and %d wait", begun, waiting)
	}
}

// TestRefreshWhileAnswering: the responder is resolving the address of a peer. Meanwhile the own address changes, and changes
// again. Poll does not wait for the responder, which answers from the last address afterwards.
func TestRefreshWhileAnswering(t *testing.T) {
	net, ds := openPorts(t, Settings{}, infiniBand(4), infiniBand(5))
	a, b := ds[0], ds[1]
	meet(t, a, b)
	h := newSlowHandles(t, net, 1, nil)
	probe := func() {
		a.eps[1].retry.silence.Probe++
		if err := a.eps[1].sendCM(cm.Probe, cm.QP{}); err != nil {
			t.Fatal(err)
		}
	}
	probe()
	waittest.Poll(t, "the call of the responder begins", func() bool {
		pollTimes(t, a, 1)
		return h.calls.Load() > 0
	})
	for lid := range uint16(2) {
		net.SetPort("node1", infiniBand(6+lid))
		b.cm.refreshAddress()
	}
	if b.cm.Resolver.Revision != 2 || h.calls.Load() != 1 {
		t.Fatalf("revision %d, %d calls", b.cm.Resolver.Revision, h.calls.Load())
	}
	h.end()
	b.cm.Responder.Close()
	if !bytes.Equal(b.cm.Responder.Addr(), b.cm.Address()) {
		t.Error("the responder has another address")
	}
	b.cm.Responder.Start(b.cm.Address())
	exchange(t, a, b)
	probe()
	waittest.Poll(t, "the answer arrives", func() bool {
		pollTimes(t, a, 1)
		pollTimes(t, b, 1)
		return a.eps[1].retry.silence.Answered == a.eps[1].retry.silence.Probe
	})
}
