//go:build linux

package datagrams

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// process has what one process sends and receives datagrams with.
type process struct {
	Manager
	rail     devices.Rail
	woken    atomic.Int32
	released int // calls of release
}

// open opens n processes on a device of their own each. The key of process i is keys[i].
func open(t *testing.T, net *verbstest.SimulatedNetwork, keys ...byte) (ps []*process) {
	t.Helper()
	for i, key := range keys {
		p, params := new(process), verbs.DefaultParams()
		p.Identity = Identity{Key: [32]byte{key}, Self: uint32(i), Size: uint32(len(keys)), Incarnation: uint64(i + 1)}
		cfg := devices.Config{Params: params, Demand: devices.Demand{Peers: len(keys) - 1, Slots: 64, SharedSlots: 64, BlockSlots: 32,
			SlotBytes: 64, Window: 8, SGE: 1, MessageBytes: cm.MessageBytes(1, 1)}}
		err := p.rail.Open(net.Node(), string(rune('a'+i)), &cfg)
		t.Cleanup(func() {
			p.Close()
			if err := p.rail.Close(); err != nil {
				t.Error(err)
			}
			p.Unmap()
		})
		if err == nil {
			err = p.Open([]*devices.Rail{&p.rail}, params, func() { p.woken.Add(1) }, func() { p.released++ })
		}
		if err != nil {
			t.Fatal(err)
		}
		p.Resolver.Patience = waittest.Limit
		p.Start()
		ps = append(ps, p)
	}
	return ps
}

// parsed returns the address of the process, as others have it.
func (p *process) parsed() cm.Address {
	a, _ := cm.ParseAddress(p.Address())
	return a
}

// send sends a datagram of a kind and with a number to another process.
func (p *process) send(to *process, r *Remote, kind cm.Kind, number uint32) error {
	if r.Rails == nil {
		r.Address = to.parsed()
	}
	return p.Send(int(to.Self), r, &cm.Message{Kind: kind, From: p.Self, To: to.Self, Size: p.Size,
		Lanes: 1, FromIncarnation: p.Incarnation, ToIncarnation: to.Incarnation, NextSeq: number,
		Address: p.Address()})
}

// poll handles completions, and returns the next datagram, nil if there is none.
func (p *process) poll(t *testing.T) *cm.Message {
	t.Helper()
	var wcs [16]verbs.WC
	n, err1 := p.rail.SendCQ.Poll(wcs[:])
	for i := range wcs[:n] {
		if p.rail.IsDatagram(wcs[i].QPN) { // and not of the queue pair that Open has tried
			p.Socket.Sent(&wcs[i])
		}
	}
	n, err2 := p.rail.RecvCQ.Poll(wcs[:])
	for i := range wcs[:n] {
		p.Socket.Received(&wcs[i])
	}
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return p.Next()
}

// next waits for the next datagram.
func (p *process) next(t *testing.T) (m *cm.Message) {
	t.Helper()
	waittest.Poll(t, "a datagram arrives", func() bool {
		m = p.poll(t)
		return m != nil
	})
	return m
}

// TestSocket: datagrams arrive in order, more than a process has slots for. Those with another key
// are dropped.
func TestSocket(t *testing.T) {
	ps := open(t, verbstest.NewSimulatedNetwork(), 1, 1, 2)
	a, b, other := ps[0], ps[1], ps[2]
	var fromA, fromOther Remote
	for i := range uint32(3 * devices.DatagramRecvs) {
		if err := errors.Join(other.send(b, &fromOther, cm.REQ, 7), a.send(b, &fromA, cm.REQ, i)); err != nil {
			t.Fatal(err)
		}
		other.poll(t)
		if m := b.next(t); m.NextSeq != i || m.From != 0 || b.Socket.Next() != nil {
			t.Fatalf("datagram %d: %+v", i, m)
		}
		a.poll(t)
	}
	if a.Socket.IsSending() || a.Socket.Free() != devices.DatagramSends {
		t.Errorf("in the end %d datagrams can be sent", a.Socket.Free())
	}
}

// TestSocketSlots: as many datagrams can be in flight as there are slots, and as many again once
// they were sent.
func TestSocketSlots(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	ps := open(t, net, 1, 1)
	a, b := ps[0], ps[1]
	var r Remote
	for i := range devices.DatagramSends {
		if err := a.send(b, &r, cm.REQ, uint32(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.send(b, &r, cm.REQ, 0); err != ErrNoSlot {
		t.Errorf("without a free slot: %v", err)
	}
	waittest.Poll(t, "all were sent", func() bool {
		a.poll(t)
		return a.Socket.Free() == devices.DatagramSends && !a.Socket.IsSending()
	})
}

// TestSocketRecovers: after a queue pair has failed, Recover makes both directions work again;
// completions from before count nothing. While the device refuses it, Send returns the reason.
func TestSocketRecovers(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	ps := open(t, net, 1, 1)
	a, b := ps[0], ps[1]
	var ab, ba Remote
	if err := a.send(b, &ab, cm.REQ, 1); err != nil { // is not polled before the failure
		t.Fatal(err)
	}
	b.next(t)
	if err := a.rail.UDs()[0].Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if a.poll(t); !a.Socket.Failed {
		t.Fatal("the failure is not noticed")
	}
	net.RefuseOn(func(device string, c verbstest.SimulatedCall) error {
		if device == "a" && c == verbstest.CallToReset {
			return syscall.EIO
		}
		return nil
	})
	if err := a.Socket.Recover(); !errors.Is(err, syscall.EIO) || a.Socket.Refusal != err || !a.Socket.Failed {
		t.Errorf("a refused restart: %v", err)
	}
	if err := a.send(b, &ab, cm.REQ, 2); !errors.Is(err, syscall.EIO) || !devices.IsRefusal(err) {
		t.Errorf("after a refused restart: %v", err)
	}
	net.RefuseOn(nil)
	if err := a.Socket.Recover(); err != nil || a.Socket.Failed || a.Socket.Free() != devices.DatagramSends {
		t.Fatalf("the restart: %v, %+v", err, &a.Socket)
	}
	for i := range uint32(devices.DatagramRecvs) {
		if err := errors.Join(a.send(b, &ab, cm.REQ, i), b.send(a, &ba, cm.REP, i)); err != nil {
			t.Fatal(err)
		}
		if m, n := b.next(t), a.next(t); m.NextSeq != i || n.NextSeq != i || n.Kind != cm.REP {
			t.Fatalf("after the restart: %+v, %+v", m, n)
		}
	}
}

// TestResponder: a probe is answered with its number although the process does not poll, also after
// its queue pair has failed, and from its present address. Another datagram is not.
func TestResponder(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	ps := open(t, net, 1, 1, 2)
	a, b, other := ps[0], ps[1], ps[2]
	var ab, ob Remote
	probe := func(number uint32) {
		t.Helper()
		waittest.Poll(t, "the probe is answered", func() bool {
			if err := a.send(b, &ab, cm.Probe, number); err != nil && err != ErrNoSlot {
				t.Fatal(err)
			}
			m := a.poll(t)
			if m != nil && (m.Kind != cm.Alive || m.From != 1) {
				t.Fatalf("answered by %+v", m)
			}
			return m != nil && m.NextSeq == number
		})
	}
	probe(3)
	if err := b.Responder.QueuePairs()[0].Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	probe(4)
	net.SetPort("b", verbstest.SimulatedPort{MTU: verbs.MTU2048})
	if c := b.Refresh(); !c.Any || c.Moved || c.Indices {
		t.Fatalf("another MTU is a change %+v", c)
	}
	waittest.Poll(t, "an answer has the new address", func() bool {
		if err := a.send(b, &ab, cm.Probe, 5); err != nil && err != ErrNoSlot {
			t.Fatal(err)
		}
		m := a.poll(t)
		if m == nil {
			return false
		}
		revision, _ := cm.Revision(m.Address)
		return revision == 1
	})
	if err := other.send(b, &ob, cm.Probe, 6); err != nil {
		t.Fatal(err)
	}
	probe(7) // the answer to the other probe would be before
	if m := other.poll(t); m != nil {
		t.Errorf("a process with another key is answered by %+v", m)
	}
}

// TestResolver: without address handles release is called, and the call is made once more. A
// destination of an earlier own address is not used. One that is to be renewed is used until the
// new one is there.
func TestResolver(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	ps := open(t, net, 1, 1)
	a, b := ps[0], ps[1]
	r := Remote{Address: b.parsed()}
	refuse := func(times int, err error) {
		net.RefuseOn(func(device string, c verbstest.SimulatedCall) error {
			if device != "a" || c != verbstest.CallCreateAH || times == 0 {
				return nil
			}
			times--
			return err
		})
	}
	destination := func() *Destination {
		t.Helper()
		dest, err := a.Resolver.Destination(1, &r)
		if err != nil {
			t.Fatal(err)
		}
		return dest
	}
	refuse(1, syscall.ENOMEM)
	first := destination()
	if a.released != 1 || r.IsResolving() || destination() != first {
		t.Errorf("released %d times", a.released)
	}
	refuse(2, syscall.ENOMEM)
	a.Resolver.Revision++
	if _, err := a.Resolver.Destination(1, &r); !devices.IsRefusal(err) || !errors.Is(err, syscall.ENOMEM) || r.IsResolving() {
		t.Errorf("no handles: %v", err)
	}
	second := destination()
	if second == first {
		t.Error("a destination of an earlier address is used")
	}
	r.Renew()
	if destination() != second || !r.IsResolving() || r.IsWaiting() {
		t.Error("the destination that is to be renewed is not used meanwhile")
	}
	r.Outdate() // the result that comes may already be outdated
	waittest.Poll(t, "the result comes", func() bool { return a.Resolver.Results() > 0 && a.woken.Load() > 0 })
	if peer, err := a.Resolver.Next(); peer != 1 || err != nil || r.IsResolving() || !r.IsStale() {
		t.Errorf("the result is for peer %d, %v; to be renewed: %v", peer, err, r.IsStale())
	}
}
