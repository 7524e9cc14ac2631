//go:build linux

package verbs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
)

func TestLiveDevice(t *testing.T) {
	r := newRig(t)
	a, err := r.dev.QueryDevice()
	must(t, err)
	p, err := r.dev.QueryPort(1)
	must(t, err)
	if a.MaxQP == 0 || a.Ports != 1 || p.State != verbs.PortActive || p.ActiveMTU.Bytes() < 1024 {
		t.Errorf("device %+v\nport %+v", a, p)
	}
	if k, err := r.dev.QueryPKey(1, 0); err != nil || k != 0xffff {
		t.Errorf("partition key %#x, %v", k, err)
	}
	gids, err := r.dev.GIDs(1)
	must(t, err)
	g, err := r.dev.ChooseGID(1, gids[0].Addr)
	if err != nil || g.Index != gids[0].Index {
		t.Errorf("asked for %v, got %v, %v", gids[0], g, err)
	}
	q := r.qp(verbs.QPConfig{Type: verbs.RC})
	if own := r.address(q); !own.GID.Is4In6() {
		t.Errorf("ChooseGID chose %v of %v", own.GID, gids)
	}
	if _, err := r.dev.QueryPort(2); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("port 2: %v", err)
	}
}

// TestLiveSend sends with every form of SEND, over both connected transports.
func TestLiveSend(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC} {
		t.Run(typ.String(), func(t *testing.T) {
			r := newRig(t)
			a, b := r.pair(verbs.QPConfig{Type: typ, MaxInline: 64, MaxSendSGE: 2, MaxRecvSGE: 2})
			for i := range 3 {
				must(t, b.Recv(uint64(10+i), r.mr.SGE(1000*(i+1), 3), r.mr.SGE(1000*(i+1)+500, 100)))
			}
			copy(r.buf, "hello, world")
			must(t, a.Send(1, verbs.Signaled, r.mr.SGE(0, 7), r.mr.SGE(7, 5)))
			must(t, a.SendImm(2, verbs.Signaled, 0xdeadbeef, r.mr.SGE(0, 5)))
			data := []byte("inline")
			must(t, a.SendInline(3, verbs.Signaled, data))
			clear(data)
			must(t, a.Ring())
			wc := r.done(6)
			if got := string(r.buf[1000:1003]) + string(r.buf[1500:1509]); got != "hello, world" || wc[10].Len != 12 {
				t.Errorf("received %q, %+v", got, wc[10])
			}
			if c := wc[11]; c.Flags&verbs.WithImm == 0 || c.Imm() != 0xdeadbeef || c.Opcode != verbs.WCRecv || c.QPN != b.Num() {
				t.Errorf("with immediate: %+v, %#x", c, c.Imm())
			}
			if got := string(r.buf[3000:3003]) + string(r.buf[3500:3503]); got != "inline" {
				t.Errorf("inline: %q", got)
			}
		})
	}
}

func TestLiveWriteReadAtomics(t *testing.T) {
	r := newRig(t)
	a, b := r.pair(verbs.QPConfig{Type: verbs.RC, MaxInline: 64})
	copy(r.buf, "written")
	must(t, a.Write(1, verbs.Signaled, r.mr.Remote(1000), r.mr.SGE(0, 7)))
	must(t, a.WriteInline(2, verbs.Signaled, r.mr.Remote(1007), []byte(" inline")))
	must(t, a.Read(3, verbs.Signaled|verbs.Fence, r.mr.Remote(1000), r.mr.SGE(2000, 14)))
	must(t, b.Recv(4))
	must(t, a.WriteImm(5, verbs.Signaled, 77, r.mr.Remote(3000), r.mr.SGE(0, 7)))
	must(t, a.Ring())
	wc := r.done(5)
	if got := string(r.buf[2000:2014]); got != "written inline" || wc[3].Opcode != verbs.WCRead {
		t.Errorf("read %q, %+v", got, wc[3])
	}
	if c := wc[4]; c.Opcode != verbs.WCRecvWriteImm || c.Imm() != 77 || !bytes.Equal(r.buf[3000:3007], []byte("written")) {
		t.Errorf("write with immediate: %+v", c)
	}

	word := func(off int) uint64 { return binary.NativeEndian.Uint64(r.buf[off:]) }
	binary.NativeEndian.PutUint64(r.buf[4096:], 40)
	must(t, a.FetchAdd(6, verbs.Signaled, r.mr.Remote(4096), 2, r.mr.SGE(5000, 8)))
	must(t, a.CompareSwap(7, verbs.Signaled, r.mr.Remote(4096), 42, 99, r.mr.SGE(5008, 8)))
	must(t, a.CompareSwap(8, verbs.Signaled, r.mr.Remote(4096), 42, 100, r.mr.SGE(5016, 8)))
	must(t, a.Ring())
	r.done(3)
	if word(5000) != 40 || word(5008) != 42 || word(5016) != 99 || word(4096) != 99 {
		t.Errorf("atomics: %d %d %d, now %d", word(5000), word(5008), word(5016), word(4096))
	}
}

func TestLiveDatagrams(t *testing.T) {
	r := newRig(t)
	cfg := verbs.QPConfig{Type: verbs.UD, QKey: 0x1234}
	a, b := r.qp(cfg), r.qp(cfg)
	must(t, a.Start())
	must(t, b.Start())
	to, err := a.Dest(r.address(b))
	must(t, err)
	must(t, b.Recv(1, r.mr.SGE(1000, 200)))
	copy(r.buf, "datagram")
	must(t, a.SendTo(2, verbs.Signaled, to, r.mr.SGE(0, 8)))
	must(t, a.Ring())
	wc := r.done(2)
	const grh = 40
	got := string(r.buf[1000+grh : 1008+grh])
	if c := wc[1]; c.Len != grh+8 || c.SrcQP != a.Num() || c.Flags&verbs.WithGRH == 0 || got != "datagram" {
		t.Errorf("%+v, %q", c, got)
	}
	if err := a.SendTo(3, 0, to, r.mr.SGE(0, 8192)); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("longer than the path MTU: %v", err)
	}
	must(t, to.AH.Close())
}

func TestLiveSharedReceives(t *testing.T) {
	r := newRig(t)
	srq, err := r.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 8})
	must(t, err)
	a, b := r.pair(verbs.QPConfig{Type: verbs.RC, SRQ: srq})
	if err := b.Recv(1); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a receive for a pair with a shared queue: %v", err)
	}
	for i := range 4 {
		must(t, srq.Recv(uint64(10+i), r.mr.SGE(1000*(i+1), 100)))
	}
	must(t, srq.SetLimit(3))
	if _, _, limit, err := srq.Query(); err != nil || limit != 3 {
		t.Errorf("limit %d, %v", limit, err)
	}
	for i := range 4 {
		from := []*verbs.QP{a, b}[i%2]
		must(t, from.Send(uint64(i), verbs.Signaled, r.mr.SGE(0, 10+i)))
		must(t, from.Ring())
		r.done(2)
	}
	if ev, err := r.dev.NextEvent(waittest.Context(t)); err != nil || ev.Type != verbs.EventSRQLimit || ev.SRQ != srq {
		t.Errorf("%v, %v", ev, err)
	}
	if err := srq.Close(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("close of a queue in use: %v", err)
	}
}

// TestLiveResize resizes queues that are not empty.
func TestLiveResize(t *testing.T) {
	r := newRig(t)
	srq, err := r.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 4})
	must(t, err)
	a, _ := r.pair(verbs.QPConfig{Type: verbs.RC, SRQ: srq})
	must(t, srq.Recv(1, r.mr.SGE(1000, 100)))
	must(t, srq.Resize(100))
	if n, _ := srq.Cap(); n < 100 {
		t.Errorf("capacity %d", n)
	}
	must(t, srq.Recv(2, r.mr.SGE(2000, 100)))
	must(t, a.Send(3, verbs.Signaled, r.mr.SGE(0, 8)))
	must(t, a.Send(4, verbs.Signaled, r.mr.SGE(0, 8)))
	must(t, a.Ring())
	r.done(4)
	must(t, srq.Recv(5, r.mr.SGE(1000, 100)))
	must(t, a.Send(6, verbs.Signaled, r.mr.SGE(0, 8)))
	must(t, a.Ring())
	must(t, r.cq.Resize(1000))
	if r.cq.Len() < 1000 {
		t.Errorf("capacity %d after Resize(1000)", r.cq.Len())
	}
	r.done(2)
}

func TestLiveMemoryWindow(t *testing.T) {
	r := newRig(t)
	a, b := r.pair(verbs.QPConfig{Type: verbs.RC})
	mw, err := r.pd.AllocMW(verbs.MWType2)
	must(t, err)
	key, err := b.BindMW(1, verbs.Signaled, mw, r.mr, 8192, 100, verbs.RemoteWrite)
	must(t, err)
	must(t, b.Ring())
	if wc := r.done(1); wc[1].Opcode != verbs.WCBindMW {
		t.Errorf("%+v", wc[1])
	}
	copy(r.buf, "through a window")
	to := verbs.Remote{Addr: r.mr.Remote(8192).Addr, RKey: key}
	must(t, a.Write(2, verbs.Signaled, to, r.mr.SGE(0, 16)))
	must(t, a.Ring())
	r.done(1)
	if got := string(r.buf[8192:8208]); got != "through a window" {
		t.Errorf("%q", got)
	}
	must(t, b.Recv(3, r.mr.SGE(1000, 100)))
	must(t, a.SendInvalidate(4, verbs.Signaled, key, r.mr.SGE(0, 4)))
	must(t, a.Ring())
	if c := r.done(2)[3]; c.Flags&verbs.WithInvalidate == 0 || c.Invalidated() != key {
		t.Errorf("%+v, key %#x", c, key)
	}
	must(t, a.Write(5, verbs.Signaled, to, r.mr.SGE(0, 16)))
	must(t, a.Ring())
	if c := r.poll(r.cq, 1)[5]; !errors.Is(c.Err(), verbs.StatusRemoteAccess) {
		t.Errorf("a write with an invalidated key: %v", c.Err())
	}
}

// TestLivePingPong sends eight bytes back and forth many times, singly and in batches.
func TestLivePingPong(t *testing.T) {
	r := newRig(t)
	a, b := r.pair(verbs.QPConfig{Type: verbs.RC, MaxInline: 8})
	for i := range 300 {
		from, to := a, b
		if i%2 == 1 {
			from, to = b, a
		}
		must(t, to.Recv(1, r.mr.SGE(1000, 8)))
		must(t, from.SendInline(2, verbs.Signaled, fmt.Appendf(nil, "%08d", i)))
		must(t, from.Ring())
		r.done(2)
		if got := string(r.buf[1000:1008]); got != fmt.Sprintf("%08d", i) {
			t.Fatalf("message %d is %q", i, got)
		}
	}
	for round := range 10 {
		for i := range 32 {
			must(t, b.Recv(uint64(100+i), r.mr.SGE(8*i, 8)))
			must(t, a.SendInline(uint64(200+i), verbs.Signaled, fmt.Appendf(nil, "%08d", round*100+i)))
		}
		must(t, a.Ring())
		r.done(64)
		for i := range 32 {
			if got := string(r.buf[8*i : 8*i+8]); got != fmt.Sprintf("%08d", round*100+i) {
				t.Fatalf("message %d of round %d is %q", i, round, got)
			}
		}
	}
}
