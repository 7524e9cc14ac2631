package verbstest

import (
	"bytes"
	"net"
	"net/netip"
	"testing"

	"github.com/ibrun/ibrun/verbs"
)

// grh is how many bytes of a datagram belong to the device.
const grh = 40

func (r *rig) datagrams(cfg verbs.QPConfig) *end {
	r.t.Helper()
	cfg.Type = verbs.UD
	e := r.end(cfg)
	if err := e.Start(); err != nil {
		r.t.Fatal(err)
	}
	return e
}

func checkDatagrams(t *testing.T, open Open) {
	r := newRig(t, open)
	a, b := r.datagrams(verbs.QPConfig{MaxInline: 64}), r.datagrams(verbs.QPConfig{QKey: 0x22222222})
	c := r.datagrams(verbs.QPConfig{})
	mtu := r.port.ActiveMTU.Bytes()
	for i, n := range []int{0, 1, 64, 1000, mtu - 1, mtu} {
		for _, to := range []*end{b, c} { // one sender, any number of receivers
			dest := must(a.Dest(to.address()))(t)
			want := bytes.Clone(to.buf[1000+grh:])
			copy(want, a.buf[i:i+n])
			into := to.recv(to.mr.SGE(1000, grh+mtu))
			id := a.do(verbs.Request{Op: verbs.OpSendImm, Imm: uint32(i), To: dest, SGE: list(a.mr, i, n)})
			wc := r.ok(id, into)
			if int(wc.Len) != grh+n || wc.SrcQP != a.Num() || wc.Flags&verbs.WithGRH == 0 || wc.Imm() != uint32(i) {
				t.Fatalf("%d bytes from queue pair %#x: %+v", n, a.Num(), wc)
			}
			same(t, "a datagram", to.buf[1000+grh:], want)
			if err := dest.AH.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	dest := must(a.Dest(b.address()))(t)
	into := b.recv(b.mr.SGE(0, grh+64))
	id := a.do(verbs.Request{Op: verbs.OpSend, To: dest, Inline: []byte("inline")})
	r.ok(id, into)
	same(t, "an inline datagram", b.buf[grh:grh+6], []byte("inline"))

	// One with a wrong key is not delivered; the next is.
	into = b.recv(b.mr.SGE(0, grh+64))
	wrong := dest
	wrong.QKey++
	r.ok(a.do(verbs.Request{Op: verbs.OpSend, To: wrong, SGE: list(a.mr, 64, 8)}))
	id = r.book.id()
	a.sent(id, verbs.OpSend, verbs.Signaled, a.SendTo(id, verbs.Signaled, dest, a.mr.SGE(128, 8)))
	a.ring()
	r.ok(id, into)
	same(t, "a datagram after one with a wrong key", b.buf[grh:grh+8], a.buf[128:136])
	r.settle()
}

func checkDatagramMisuse(t *testing.T, open Open) {
	r := newRig(t, open)
	a, b := r.datagrams(verbs.QPConfig{}), r.datagrams(verbs.QPConfig{})
	dest := must(a.Dest(b.address()))(t)
	for what, q := range map[string]verbs.Request{
		"more than the path MTU": {Op: verbs.OpSend, To: dest, SGE: list(a.mr, 0, r.port.ActiveMTU.Bytes()+1)},
		"to nobody":              {Op: verbs.OpSend, SGE: list(a.mr, 0, 8)},
		"a WRITE":                {Op: verbs.OpWrite, To: dest, SGE: list(a.mr, 0, 8), Remote: b.mr.Remote(0)},
		"a READ":                 {Op: verbs.OpRead, To: dest, SGE: list(a.mr, 0, 8), Remote: b.mr.Remote(0)},
		"an atomic operation":    {Op: verbs.OpFetchAdd, To: dest, SGE: list(a.mr, 0, 8), Remote: b.mr.Remote(0)},
	} {
		q.ID = r.book.id()
		a.refusedPost(q.ID, a.Post(&q), verbs.ErrInvalid, what)
	}
	r.refused(a.Connect(b.address()), verbs.ErrInvalid, "connect datagrams")
	rc := r.end(verbs.QPConfig{})
	r.refused(rc.Start(), verbs.ErrInvalid, "start without a peer")
	_, err := a.Dest(rc.address())
	r.refused(err, verbs.ErrInvalid, "datagrams to a connected pair")
	far := b.address()
	far.GID = elsewhere(far.GID)
	_, err = a.Dest(far)
	r.refused(err, verbs.ErrUnreachable, "datagrams to nowhere")
	if err := dest.AH.Close(); err != nil {
		t.Fatal(err)
	}
	id := r.book.id()
	a.refusedPost(id, a.SendTo(id, 0, dest, a.mr.SGE(0, 8)), verbs.ErrClosed, "to an address handle that was closed")
	r.settle()
}

// elsewhere is an address of the same family that no machine has: it is for documentation only.
func elsewhere(like netip.Addr) netip.Addr {
	if like.Unmap().Is4() {
		return netip.AddrFrom16(netip.MustParseAddr("203.0.113.77").As16())
	}
	return netip.MustParseAddr("2001:db8::77")
}

// everyone is the queue pair number of a group, whose address is one for use within a site.
const everyone = 0xffffff

var group = netip.MustParseAddr("::ffff:239.192.77.7")

// A datagram to a multicast group reaches every pair that is attached to it, and no other.
func checkMulticast(t *testing.T, open Open) {
	r := newRig(t, open)
	const key = 0x33333333
	from, alone := r.datagrams(verbs.QPConfig{QKey: key}), r.datagrams(verbs.QPConfig{QKey: key})
	members := []*end{r.datagrams(verbs.QPConfig{QKey: key}), r.datagrams(verbs.QPConfig{QKey: key})}
	at := from.address()
	if at.LID != 0 || !at.GID.Is4In6() {
		return // groups of InfiniBand belong to the subnet manager, and those of IPv6 are others
	}
	r.refused(from.AttachMulticast(at.GID, 0), verbs.ErrInvalid, "attach to what is no group")
	rc := r.end(verbs.QPConfig{})
	r.refused(rc.AttachMulticast(group, 0), verbs.ErrInvalid, "attach a connected pair")
	joinGroup(t, r.ctx, r.portNumber())
	for _, m := range members {
		if err := m.AttachMulticast(group, 0); err != nil {
			t.Fatal(err)
		}
		r.refused(m.Close(), verbs.ErrBusy, "close what is attached")
	}
	to := must(from.Dest(verbs.Address{Type: verbs.UD, QPN: everyone, QKey: key, GID: group}))(t)
	apart := alone.recv(alone.mr.SGE(0, grh+64))
	send := func(n int) {
		t.Helper()
		var into []uint64
		for _, m := range members {
			into = append(into, m.recv(m.mr.SGE(0, grh+64)))
		}
		r.ok(from.do(verbs.Request{Op: verbs.OpSend, To: to, SGE: list(from.mr, n, 64)}))
		for i, m := range members {
			if wc := r.ok(into[i]); wc.SrcQP != from.Num() || wc.Len != grh+64 {
				t.Fatalf("64 bytes from queue pair %#x to all: %+v", from.Num(), wc)
			}
			same(t, "a datagram to all", m.buf[grh:grh+64], from.buf[n:n+64])
		}
	}
	send(0)
	last := members[1]
	if err := last.DetachMulticast(group, 0); err != nil {
		t.Fatal(err)
	}
	members = members[:1]
	not := last.recv(last.mr.SGE(0, grh+64))
	send(64)
	send(128)
	if r.book.has(not) || r.book.has(apart) {
		t.Fatal("a datagram to all has reached a pair that is not attached")
	}
	if err := members[0].DetachMulticast(group, 0); err != nil {
		t.Fatal(err)
	}
	r.refused(last.DetachMulticast(group, 0), verbs.ErrInvalid, "detach twice")
	for _, e := range []*end{last, alone, members[0]} {
		e.close()
	}
	r.settle()
}

// joinGroup has the network deliver the group to this machine, which for RoCE is not the device's matter.
func joinGroup(t *testing.T, ctx *verbs.Context, port int) {
	t.Helper()
	for _, d := range must(verbs.Devices())(t) {
		if d.Name != ctx.Name() {
			continue
		}
		for _, p := range d.Ports {
			if p.Number == port {
				nic := must(net.InterfaceByName(p.Netdev))(t)
				c := must(net.ListenMulticastUDP("udp4", nic, &net.UDPAddr{IP: group.Unmap().AsSlice()}))(t)
				t.Cleanup(func() { c.Close() })
				return
			}
		}
	}
	t.Fatalf("port %d of device %s has no network interface", port, ctx.Name())
}

func checkUnreliable(t *testing.T, open Open) {
	r := newRig(t, open)
	a, b := r.pair(verbs.QPConfig{Type: verbs.UC})
	for i, n := range r.lengths() {
		want := bytes.Clone(b.buf)
		copy(want[7:], a.buf[i:i+n])
		into := b.recv(b.mr.SGE(7, n+1))
		wc := r.ok(a.do(verbs.Request{Op: verbs.OpSendImm, Imm: 7, SGE: list(a.mr, i, n)}), into)
		if int(wc.Len) != n || wc.Imm() != 7 {
			t.Fatalf("%d bytes were sent: %+v", n, wc)
		}
		same(t, "a SEND", b.buf, want)
		copy(want[1<<16:], a.buf[i:i+n])
		into = b.recv()
		wc = r.ok(a.do(verbs.Request{Op: verbs.OpWrite, SGE: list(a.mr, i, n), Remote: b.mr.Remote(1 << 16)}),
			a.do(verbs.Request{Op: verbs.OpWriteImm, Imm: 8, SGE: list(a.mr, i, n), Remote: b.mr.Remote(1 << 16)}), into)
		if wc.Opcode != verbs.WCRecvWriteImm || wc.Imm() != 8 {
			t.Fatalf("a WRITE with immediate: %+v", wc)
		}
		same(t, "a WRITE", b.buf, want)
	}
	for _, op := range []verbs.Opcode{verbs.OpRead, verbs.OpFetchAdd, verbs.OpCompareSwap} {
		q := verbs.Request{Op: op, ID: r.book.id(), SGE: list(a.mr, 0, 8), Remote: b.mr.Remote(0)}
		a.refusedPost(q.ID, a.Post(&q), verbs.ErrInvalid, op.String())
	}
	// A message that finds no receive, or no right, is lost; those after it arrive.
	r.ok(a.do(verbs.Request{Op: verbs.OpSend, SGE: list(a.mr, 0, 8)}))
	into := b.recv(b.mr.SGE(0, 8))
	r.ok(a.do(verbs.Request{Op: verbs.OpSend, SGE: list(a.mr, 8, 8)}), into)
	same(t, "the SEND after one that was lost", b.buf[:8], a.buf[8:16])
	r.settle()
}
