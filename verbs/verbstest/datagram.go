package verbstest

import (
	"bytes"
	"net"
	"net/netip"
	"testing"

	"github.com/ibrun/ibrun/verbs"
)

// grhLen is the number of bytes before the payload of a received datagram: the device writes the global route header there.
const grhLen = 40

func (r *fixture) newDatagramEndpoint(cfg verbs.QPConfig) *endpoint {
	r.t.Helper()
	cfg.Type = verbs.UD
	e := r.newEndpoint(cfg)
	if err := e.Start(); err != nil {
		r.t.Fatal(err)
	}
	return e
}

func checkDatagrams(t *testing.T, open Open) {
	r := newFixture(t, open)
	inline := []byte("inline")[:r.inlineBytes(verbs.UD, 6)]
	a, b := r.newDatagramEndpoint(verbs.QPConfig{MaxInline: len(inline)}), r.newDatagramEndpoint(verbs.QPConfig{QKey: 0x22222222})
	c := r.newDatagramEndpoint(verbs.QPConfig{})
	mtu := r.port.ActiveMTU.Bytes()
	for i, n := range []int{0, 1, 64, 1000, mtu - 1, mtu} {
		for _, to := range []*endpoint{b, c} { // a datagram queue pair can send to any number of receivers
			dest := must(a.Dest(to.address()))(t)
			want := bytes.Clone(to.buf[1000+grhLen:])
			copy(want, a.buf[i:i+n])
			into := to.postRecv(to.mr.SGE(1000, grhLen+mtu))
			id := a.postAndRing(verbs.Request{Op: verbs.OpSendImm, Imm: uint32(i), To: dest, SGE: sgeList(a.mr, i, n)})
			wc := r.awaitSuccess(id, into)
			if int(wc.Len) != grhLen+n || wc.SrcQP != a.Num() || r.routesAll() && wc.Flags&verbs.WithGRH == 0 || wc.Imm() != uint32(i) {
				t.Fatalf("%d bytes from queue pair %#x: %+v", n, a.Num(), wc)
			}
			checkBytes(t, "a datagram", to.buf[1000+grhLen:], want)
			if err := dest.AH.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	dest := must(a.Dest(b.address()))(t)
	into := b.postRecv(b.mr.SGE(0, grhLen+64))
	id := a.postAndRing(verbs.Request{Op: verbs.OpSend, To: dest, Inline: inline})
	r.awaitSuccess(id, into)
	checkBytes(t, "an inline datagram", b.buf[grhLen:grhLen+len(inline)], inline)

	// A datagram with a wrong Q_Key is not delivered. The next one is.
	into = b.postRecv(b.mr.SGE(0, grhLen+64))
	wrong := dest
	wrong.QKey++
	r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpSend, To: wrong, SGE: sgeList(a.mr, 64, 8)}))
	id = r.tracker.nextID()
	a.expectCompletion(id, verbs.OpSend, verbs.Signaled, a.SendTo(id, verbs.Signaled, dest, a.mr.SGE(128, 8)))
	a.ringDoorbell()
	r.awaitSuccess(id, into)
	checkBytes(t, "a datagram after one with a wrong key", b.buf[grhLen:grhLen+8], a.buf[128:136])
	r.drain()
}

// routesAll reports whether all packets of the port have a global route header.
func (r *fixture) routesAll() bool { return r.port.LID == 0 || r.port.GRHRequired() }

func checkDatagramMisuse(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.newDatagramEndpoint(verbs.QPConfig{}), r.newDatagramEndpoint(verbs.QPConfig{})
	dest := must(a.Dest(b.address()))(t)
	for what, q := range map[string]verbs.Request{
		"more than the path MTU": {Op: verbs.OpSend, To: dest, SGE: sgeList(a.mr, 0, r.port.ActiveMTU.Bytes()+1)},
		"without a destination":  {Op: verbs.OpSend, SGE: sgeList(a.mr, 0, 8)},
		"a WRITE":                {Op: verbs.OpWrite, To: dest, SGE: sgeList(a.mr, 0, 8), Remote: b.mr.Remote(0)},
		"a READ":                 {Op: verbs.OpRead, To: dest, SGE: sgeList(a.mr, 0, 8), Remote: b.mr.Remote(0)},
		"an atomic operation":    {Op: verbs.OpFetchAdd, To: dest, SGE: sgeList(a.mr, 0, 8), Remote: b.mr.Remote(0)},
	} {
		q.ID = r.tracker.nextID()
		a.checkPostError(q.ID, a.Post(&q), verbs.ErrInvalid, what)
	}
	r.checkError(a.Connect(b.address()), verbs.ErrInvalid, "connect datagrams")
	rc := r.newEndpoint(verbs.QPConfig{})
	r.checkError(rc.Start(), verbs.ErrInvalid, "start without a peer")
	_, err := a.Dest(rc.address())
	r.checkError(err, verbs.ErrInvalid, "datagrams to a connected queue pair")
	unused := b.address()
	unused.GID = unusedAddr(unused.GID)
	_, err = a.Dest(unused)
	if unused.LID == 0 {
		r.checkError(err, verbs.ErrUnreachable, "datagrams to an unused address")
	} else { // of another subnet, to which no link-local address leads
		r.checkError(err, verbs.ErrInvalid, "datagrams to another subnet")
	}
	if err := dest.AH.Close(); err != nil {
		t.Fatal(err)
	}
	id := r.tracker.nextID()
	a.checkPostError(id, a.SendTo(id, 0, dest, a.mr.SGE(0, 8)), verbs.ErrClosed, "to a closed address handle")
	r.drain()
}

// unusedAddr returns an address of the same family as like that no machine has: it is reserved for documentation.
func unusedAddr(like netip.Addr) netip.Addr {
	if like.Unmap().Is4() {
		return netip.AddrFrom16(netip.MustParseAddr("203.0.113.77").As16())
	}
	return netip.MustParseAddr("2001:db8::77")
}

// multicastQPN is the queue pair number to which multicast datagrams are sent.
const multicastQPN = 0xffffff

// multicastGroup is an IPv4 multicast address of the organization-local scope.
var multicastGroup = netip.MustParseAddr("::ffff:239.192.77.7")

// A datagram to a multicast group reaches every attached queue pair, and no other queue pair.
func checkMulticast(t *testing.T, open Open) {
	r := newFixture(t, open)
	const key = 0x33333333
	from, unattached := r.newDatagramEndpoint(verbs.QPConfig{QKey: key}), r.newDatagramEndpoint(verbs.QPConfig{QKey: key})
	members := []*endpoint{r.newDatagramEndpoint(verbs.QPConfig{QKey: key}), r.newDatagramEndpoint(verbs.QPConfig{QKey: key})}
	at := from.address()
	if at.LID != 0 || !at.GID.Is4In6() {
		return // InfiniBand groups need the subnet manager; the test has no IPv6 group
	}
	r.checkError(from.AttachMulticast(at.GID, 0), verbs.ErrInvalid, "attach to a unicast address")
	rc := r.newEndpoint(verbs.QPConfig{})
	r.checkError(rc.AttachMulticast(multicastGroup, 0), verbs.ErrInvalid, "attach a connected queue pair")
	joinGroup(t, r.ctx, r.portNumber())
	for _, m := range members {
		if err := m.AttachMulticast(multicastGroup, 0); err != nil {
			t.Fatal(err)
		}
		r.checkError(m.Close(), verbs.ErrBusy, "close an attached queue pair")
	}
	to := must(from.Dest(verbs.Address{Type: verbs.UD, QPN: multicastQPN, QKey: key, GID: multicastGroup}))(t)
	unattachedRecv := unattached.postRecv(unattached.mr.SGE(0, grhLen+64))
	send := func(n int) {
		t.Helper()
		var into []uint64
		for _, m := range members {
			into = append(into, m.postRecv(m.mr.SGE(0, grhLen+64)))
		}
		r.awaitSuccess(from.postAndRing(verbs.Request{Op: verbs.OpSend, To: to, SGE: sgeList(from.mr, n, 64)}))
		for i, m := range members {
			if wc := r.awaitSuccess(into[i]); wc.SrcQP != from.Num() || wc.Len != grhLen+64 {
				t.Fatalf("64 bytes from queue pair %#x to the group: %+v", from.Num(), wc)
			}
			checkBytes(t, "a multicast datagram", m.buf[grhLen:grhLen+64], from.buf[n:n+64])
		}
	}
	send(0)
	last := members[1]
	if err := last.DetachMulticast(multicastGroup, 0); err != nil {
		t.Fatal(err)
	}
	members = members[:1]
	detachedRecv := last.postRecv(last.mr.SGE(0, grhLen+64))
	send(64)
	send(128)
	if r.tracker.isCompleted(detachedRecv) || r.tracker.isCompleted(unattachedRecv) {
		t.Fatal("a multicast datagram reached a queue pair that is not attached")
	}
	if err := members[0].DetachMulticast(multicastGroup, 0); err != nil {
		t.Fatal(err)
	}
	r.checkError(last.DetachMulticast(multicastGroup, 0), verbs.ErrInvalid, "detach twice")
	for _, e := range []*endpoint{last, unattached, members[0]} {
		e.close()
	}
	r.drain()
}

// joinGroup joins the multicast group on the network interface of the port. With RoCE the device does not do this itself. A
// device that the kernel does not have needs no interface.
func joinGroup(t *testing.T, ctx *verbs.Context, port int) {
	t.Helper()
	for _, d := range must(verbs.Devices())(t) {
		if d.Name != ctx.Name() {
			continue
		}
		for _, p := range d.Ports {
			if p.Number == port {
				nic := must(net.InterfaceByName(p.Netdev))(t)
				c := must(net.ListenMulticastUDP("udp4", nic, &net.UDPAddr{IP: multicastGroup.Unmap().AsSlice()}))(t)
				t.Cleanup(func() { c.Close() })
				return
			}
		}
	}
}

func checkUnreliable(t *testing.T, open Open) {
	r := newFixture(t, open)
	if !r.hasUC() {
		return
	}
	a, b := r.pair(verbs.QPConfig{Type: verbs.UC})
	for i, n := range r.messageLengths() {
		want := bytes.Clone(b.buf)
		copy(want[7:], a.buf[i:i+n])
		into := b.postRecv(b.mr.SGE(7, n+1))
		wc := r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpSendImm, Imm: 7, SGE: sgeList(a.mr, i, n)}), into)
		if int(wc.Len) != n || wc.Imm() != 7 {
			t.Fatalf("%d bytes were sent: %+v", n, wc)
		}
		checkBytes(t, "a SEND", b.buf, want)
		copy(want[1<<16:], a.buf[i:i+n])
		into = b.postRecv()
		wc = r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpWrite, SGE: sgeList(a.mr, i, n), Remote: b.mr.Remote(1 << 16)}),
			a.postAndRing(verbs.Request{Op: verbs.OpWriteImm, Imm: 8, SGE: sgeList(a.mr, i, n), Remote: b.mr.Remote(1 << 16)}), into)
		if wc.Opcode != verbs.WCRecvWriteImm || wc.Imm() != 8 {
			t.Fatalf("a WRITE with immediate: %+v", wc)
		}
		checkBytes(t, "a WRITE", b.buf, want)
	}
	for _, op := range []verbs.Opcode{verbs.OpRead, verbs.OpFetchAdd, verbs.OpCompareSwap} {
		q := verbs.Request{Op: op, ID: r.tracker.nextID(), SGE: sgeList(a.mr, 0, 8), Remote: b.mr.Remote(0)}
		a.checkPostError(q.ID, a.Post(&q), verbs.ErrInvalid, op.String())
	}
	// A message without a posted receive is lost. Later messages arrive.
	r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(a.mr, 0, 8)}))
	into := b.postRecv(b.mr.SGE(0, 8))
	r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(a.mr, 8, 8)}), into)
	checkBytes(t, "the SEND after a lost one", b.buf[:8], a.buf[8:16])
	r.drain()
}
