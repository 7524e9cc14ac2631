package verbstest

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/verbs"
)

// The attributes of a device and its port are present and plausible.
func checkQuery(t *testing.T, open Open) {
	r := newFixture(t, open)
	c := r.caps
	least := min(uint32(c.Ports), c.MaxQP, c.MaxQPWR, c.MaxSGE, c.MaxCQ, c.MaxCQE, c.MaxMR, uint32(c.MaxPKeys))
	if least < 1 || c.MaxMRSize < 1<<20 || c.NodeGUID == 0 {
		t.Errorf("the device's limits are %+v", c)
	}
	if r.ctx.Name() == "" || r.ctx.Provider() == "" {
		t.Errorf("device %q through provider %q", r.ctx.Name(), r.ctx.Provider())
	}
	p := r.port
	if p.State != verbs.PortActive || p.ActiveMTU.Bytes() < 256 || p.ActiveMTU > p.MaxMTU || p.MaxMsgSize < 1<<20 ||
		p.GIDTableLen < 1 || p.PKeyTableLen < 1 {
		t.Errorf("the port is %+v", p)
	}
	number := r.portNumber()
	if key, err := r.ctx.QueryPKey(number, 0); err != nil || key&0x7fff == 0 {
		t.Errorf("the first partition key is %#x: %v", key, err)
	}
	gids, err := r.ctx.GIDs(number)
	if err != nil || len(gids) == 0 {
		t.Fatalf("GIDs: %v, %v", gids, err)
	}
	chosen := must(r.ctx.ChooseGID(number, netip.Addr{}))(t)
	again := must(r.ctx.ChooseGID(number, chosen.Addr))(t)
	if chosen.Addr != again.Addr || chosen.OtherNetns {
		t.Errorf("%v was chosen, but %v when it was asked for", chosen, again)
	}
	for _, port := range []int{0, -1, int(c.Ports) + 1} {
		_, err := r.ctx.QueryPort(port)
		r.checkError(err, verbs.ErrInvalid, "no such port")
		_, err = r.ctx.QueryPKey(port, 0)
		r.checkError(err, verbs.ErrInvalid, "no such port")
		_, err = r.ctx.GIDs(port)
		r.checkError(err, verbs.ErrInvalid, "no such port")
	}
	if _, err := r.ctx.QueryPKey(number, int(p.PKeyTableLen)); err == nil {
		t.Error("there is a partition key after the end of the table")
	}
}

// Connecting with wrong parameters fails, and the queue pair can still be connected.
func checkConnectMisuse(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.newEndpoint(verbs.QPConfig{}), r.newEndpoint(verbs.QPConfig{})
	refuse := func(what string, kind error, change func(*verbs.Address, *verbs.Params)) {
		t.Helper()
		to, p := b.address(), verbs.DefaultParams()
		change(&to, &p)
		if e := r.checkError(a.ConnectWith(to, p), kind, what); e.QPN != a.Num() {
			t.Fatalf("%s: %v does not name queue pair %#x", what, e, a.Num())
		}
	}
	refuse("another type", verbs.ErrInvalid, func(to *verbs.Address, _ *verbs.Params) { to.Type = verbs.UC })
	refuse("datagrams", verbs.ErrInvalid, func(to *verbs.Address, _ *verbs.Params) { to.Type = verbs.UD })
	refuse("no MTU", verbs.ErrInvalid, func(_ *verbs.Address, p *verbs.Params) { p.MTU = 9 })
	if r.port.ActiveMTU < verbs.MTU4096 {
		refuse("more than the port's MTU", verbs.ErrInvalid, func(_ *verbs.Address, p *verbs.Params) { p.MTU = r.port.ActiveMTU + 1 })
	}
	refuse("more than the peer's MTU", verbs.ErrInvalid, func(to *verbs.Address, p *verbs.Params) {
		to.MTU, p.MTU = verbs.MTU256, verbs.MTU512
	})
	if a.address().LID == 0 { // RoCE only
		refuse("no GID", verbs.ErrInvalid, func(to *verbs.Address, _ *verbs.Params) { to.GID = netip.Addr{} })
		refuse("a GID of another family", verbs.ErrInvalid, func(to *verbs.Address, _ *verbs.Params) {
			other := netip.MustParseAddr("203.0.113.77")
			if to.GID.Unmap().Is4() {
				other = netip.MustParseAddr("2001:db8::77")
			}
			to.GID = netip.AddrFrom16(other.As16())
		})
		refuse("an unused GID", verbs.ErrUnreachable, func(to *verbs.Address, _ *verbs.Params) { to.GID = unusedAddr(to.GID) })
	}
	a.connect(b, verbs.DefaultParams())
	b.connect(a, verbs.DefaultParams())
	r.exchange(a, b)
	e := r.checkError(a.Connect(b.address()), verbs.ErrState, "connect twice")
	if !strings.Contains(e.Error(), "RTS") {
		t.Fatalf("%v does not name the state", e)
	}
	r.exchange(a, b)

	foreign, err := r.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: a.cq, GID: unusedAddr(a.address().GID)})
	if err == nil {
		_, err = foreign.Address()
	}
	r.checkError(err, verbs.ErrInvalid, "a GID that the port does not have")
	r.drain()
}

// Creating objects with wrong parameters fails with a reason, and uses no resources.
func checkCreateMisuse(t *testing.T, open Open) {
	r := newFixture(t, open)
	cq := r.cq(16, nil)
	good := verbs.QPConfig{Type: verbs.RC, SendCQ: cq}
	with := func(change func(*verbs.QPConfig)) error {
		cfg := good
		change(&cfg)
		_, err := r.pd.CreateQP(cfg)
		return err
	}
	buf := make([]byte, 4096)
	register := func(b []byte, a verbs.Access) error { _, err := r.pd.Register(b, a); return err }
	create := func(n int) error { _, err := r.ctx.CreateCQ(n, nil); return err }
	for what, err := range map[string]error{
		"a CQ of no entries":    create(0),
		"a CQ of -1 entries":    create(-1),
		"a CQ too large":        create(int(r.caps.MaxCQE) + 1),
		"no CQ":                 with(func(c *verbs.QPConfig) { c.SendCQ = nil }),
		"no type":               with(func(c *verbs.QPConfig) { c.Type = 0 }),
		"an unknown type":       with(func(c *verbs.QPConfig) { c.Type = 200 }),
		"too many sends":        with(func(c *verbs.QPConfig) { c.MaxSend = int(r.caps.MaxQPWR) + 1 }),
		"too many receives":     with(func(c *verbs.QPConfig) { c.MaxRecv = int(r.caps.MaxQPWR) + 1 }),
		"a negative send queue": with(func(c *verbs.QPConfig) { c.MaxSend = -1 }),
		"a list too long":       with(func(c *verbs.QPConfig) { c.MaxSendSGE = int(r.caps.MaxSGE) + 1 }),
		"a receive too long":    with(func(c *verbs.QPConfig) { c.MaxRecvSGE = int(r.caps.MaxSGE) + 1 }),
		"too much inline":       with(func(c *verbs.QPConfig) { c.MaxInline = 1 << 20 }),
		"negative inline":       with(func(c *verbs.QPConfig) { c.MaxInline = -1 }),
		"no such port":          with(func(c *verbs.QPConfig) { c.Port = int(r.caps.Ports) + 1 }),
		"no such partition":     with(func(c *verbs.QPConfig) { c.PKeyIndex = 1 << 15 }),
		"no memory":             register(nil, verbs.LocalWrite),
		"remote write only":     register(buf, verbs.RemoteWrite),
		"remote atomics only":   register(buf, verbs.RemoteAtomic),
	} {
		r.checkError(err, verbs.ErrInvalid, what)
	}
	if _, err := r.pd.RegisterAddr(4096, 4096, 4096, verbs.LocalWrite); err == nil {
		t.Error("unmapped memory was registered")
	} else if e := (*verbs.Error)(nil); !errors.As(err, &e) || e.Kind == nil {
		t.Errorf("unmapped memory: %v", err)
	}
	a, b := r.pair(verbs.QPConfig{})
	r.exchange(a, b)
	r.drain()
}

// An object cannot be closed while others use it. A second Close does nothing, and a context closes all remaining objects.
func checkCloseOrder(t *testing.T, open Open) {
	r := newFixture(t, open)
	ch := must(r.ctx.CreateChannel())(t)
	cq := must(r.ctx.CreateCQ(16, ch))(t)
	e := r.newEndpoint(verbs.QPConfig{SendCQ: cq})
	for what, c := range map[string]interface{ Close() error }{"a domain": r.pd, "a queue": cq, "a channel": ch} {
		err := r.checkError(c.Close(), verbs.ErrBusy, what)
		if !strings.Contains(err.Detail, "queue") {
			t.Errorf("%s: %v does not name its user", what, err)
		}
	}
	for _, c := range []interface{ Close() error }{e, e, cq, cq, ch, ch, e.mr, e.mr, r.pd, r.pd} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := cq.Poll(r.wcs[:])
	r.checkError(err, verbs.ErrClosed, "poll after Close")
	r.checkError(cq.Notify(false), verbs.ErrClosed, "notify after Close")
	r.checkError(cq.Resize(8), verbs.ErrClosed, "resize after Close")
	_, err = ch.Next()
	r.checkError(err, verbs.ErrClosed, "next after Close")
	_, err = ch.Wait(r.context())
	r.checkError(err, verbs.ErrClosed, "wait after Close")
	r.checkError(e.mr.SetAccess(verbs.LocalWrite), verbs.ErrClosed, "change after Close")
	_, err = r.pd.Register(make([]byte, 8), 0)
	r.checkError(err, verbs.ErrClosed, "register after Close")
	_, err = r.pd.AllocMW(verbs.MWType1)
	r.checkError(err, verbs.ErrClosed, "a window after Close")

	// Closing the context closes everything.
	r = newFixture(t, open)
	a, b := r.pair(verbs.QPConfig{})
	var srq *verbs.SRQ
	if r.hasSRQ() {
		srq = must(r.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 8}))(t)
	}
	r.newEndpoint(verbs.QPConfig{SendCQ: must(r.ctx.CreateCQ(8, must(r.ctx.CreateChannel())(t)))(t), SRQ: srq})
	for range 10 {
		a.post(verbs.Request{Op: verbs.OpWrite, SGE: sgeList(a.mr, 0, 1<<15), Remote: b.mr.Remote(0)})
	}
	a.ringDoorbell()
	for range 2 {
		if err := r.ctx.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err = r.ctx.AllocPD()
	r.checkError(err, verbs.ErrClosed, "a domain after Close")
	_, err = r.ctx.QueryDevice()
	r.checkError(err, verbs.ErrClosed, "query after Close")
	_, err = r.ctx.NextEvent(r.context())
	r.checkError(err, verbs.ErrClosed, "an event after Close")
	a.checkPostError(1, a.Send(1, 0, a.mr.SGE(0, 8)), verbs.ErrClosed, "a SEND after Close")
}

// Contexts are independent: their objects cannot be mixed, their queue pairs can be connected, and closing one context does not
// affect the other.
func checkForeign(t *testing.T, open Open) {
	r, far := newFixture(t, open), newFixture(t, open)
	a, b, c := r.newEndpoint(verbs.QPConfig{}), far.newEndpoint(verbs.QPConfig{}), far.newEndpoint(verbs.QPConfig{})
	_, err := r.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: b.cq})
	r.checkError(err, verbs.ErrInvalid, "a completion queue of another context")
	ch := must(far.ctx.CreateChannel())(t)
	_, err = r.ctx.CreateCQ(8, ch)
	r.checkError(err, verbs.ErrInvalid, "a channel of another context")
	r.checkError(a.mr.SetPD(far.pd), verbs.ErrInvalid, "a domain of another context")

	r.checkForeignObjects(far)

	a.connect(b, fastFailParams())
	b.connect(a, fastFailParams())
	into := b.postRecv(b.mr.SGE(0, 100))
	id := a.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(a.mr, 0, 100)})
	far.awaitSuccess(into)
	r.awaitSuccess(id)
	checkBytes(t, "a SEND between contexts", b.buf[:100], a.buf[:100])
	c.postRecv(c.mr.SGE(0, 8))
	if err := far.ctx.Close(); err != nil {
		t.Fatal(err)
	}
	r.awaitFailure(a, a.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(a.mr, 0, 8)}), verbs.StatusRetryExceeded)
	x, y := r.pair(verbs.QPConfig{})
	r.exchange(x, y)
	r.drain()
}

// checkForeignObjects checks that requests that name objects of another context fail.
func (r *fixture) checkForeignObjects(far *fixture) {
	r.t.Helper()
	a, _ := r.pair(verbs.QPConfig{})
	_, own := r.regionWith(4096, 1, windowAccess)
	_, other := far.regionWith(4096, 1, windowAccess)
	if r.caps.MaxMW > 0 {
		ownMW, foreignMW := must(r.pd.AllocMW(verbs.MWType2))(r.t), must(far.pd.AllocMW(verbs.MWType2))(r.t)
		_, err := a.BindMW(3, 0, foreignMW, own, 0, 8, verbs.RemoteRead)
		a.checkPostError(3, err, verbs.ErrInvalid, "a window of another context")
		_, err = a.BindMW(4, 0, ownMW, other, 0, 8, verbs.RemoteRead)
		a.checkPostError(4, err, verbs.ErrInvalid, "a window on a region of another context")
	}
	d, e := r.newDatagramEndpoint(verbs.QPConfig{}), far.newDatagramEndpoint(verbs.QPConfig{})
	foreign := must(e.Dest(d.address()))(r.t)
	d.checkPostError(5, d.SendTo(5, 0, foreign, d.mr.SGE(0, 8)), verbs.ErrInvalid, "an address handle of another context")
}
