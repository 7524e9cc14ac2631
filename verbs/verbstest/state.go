package verbstest

import (
	"strings"
	"testing"

	"github.com/ibrun/ibrun/verbs"
)

// The attributes that take a pair of type RC through its states.
const (
	toInit = verbs.AttrState | verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAccess
	toRTR  = verbs.AttrState | verbs.AttrAH | verbs.AttrMTU | verbs.AttrDestQPN | verbs.AttrRQPSN | verbs.AttrMaxDestRDAtomic |
		verbs.AttrMinRNRTimer
	toRTS = verbs.AttrState | verbs.AttrTimeout | verbs.AttrRetryCount | verbs.AttrRNRRetry | verbs.AttrSQPSN | verbs.AttrMaxRDAtomic
)

// connectAttrs are the attributes that connect e with a peer, state by state.
func (e *endpoint) connectAttrs(to *endpoint) map[verbs.State]verbs.Attr {
	e.r.t.Helper()
	port := uint8(e.r.portNumber())
	gid := must(e.r.ctx.ChooseGID(int(port), e.address().GID))(e.r.t)
	return map[verbs.State]verbs.Attr{
		verbs.StateInit: {State: verbs.StateInit, Port: port, Access: verbs.RemoteWrite | verbs.RemoteRead},
		verbs.StateRTR: {State: verbs.StateRTR, MTU: verbs.MTU512, DestQPN: to.Num(), RQPSN: to.Num() & 0xffff, MaxDestRDAtomic: 3,
			MinRNRTimer: 5, AH: verbs.AHAttr{GID: to.address().GID, SGIDIndex: uint8(gid.Index), HopLimit: 64, TrafficClass: 32,
				Port: port}},
		verbs.StateRTS: {State: verbs.StateRTS, SQPSN: e.Num() & 0xffff, Timeout: 13, RetryCount: 6, RNRRetry: 5, MaxRDAtomic: 2},
	}
}

// portNumber is that of the first active port.
func (r *fixture) portNumber() int {
	r.t.Helper()
	for p := 1; p <= int(r.caps.Ports); p++ {
		if must(r.ctx.QueryPort(p))(r.t).State == verbs.PortActive {
			return p
		}
	}
	r.t.Fatal("no port is active")
	return 0
}

// modify modifies a pair and checks in what state it is then.
func (r *fixture) modify(e *endpoint, a verbs.Attr, mask verbs.AttrMask) {
	r.t.Helper()
	if err := e.Modify(a, mask); err != nil {
		r.t.Fatal(err)
	}
	if s := must(e.State())(r.t); s != a.State {
		r.t.Fatalf("after a change to %v it is in %v", a.State, s)
	}
}

// A pair goes through its states one by one, and tells its attributes.
func checkModify(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.newEndpoint(verbs.QPConfig{}), r.newEndpoint(verbs.QPConfig{})
	r.reconnect(a, b)
	for _, way := range [][2]*endpoint{{a, b}, {b, a}} {
		e, to, steps := way[0], way[1], way[0].connectAttrs(way[1])
		got := must(e.Query(toInit | toRTR | toRTS))(t)
		rtr, rts := steps[verbs.StateRTR], steps[verbs.StateRTS]
		if got.State != verbs.StateRTS || got.MTU != rtr.MTU || got.DestQPN != to.Num() ||
			got.RQPSN != rtr.RQPSN || got.SQPSN != rts.SQPSN ||
			got.MaxDestRDAtomic < 3 || got.MinRNRTimer != 5 || got.Timeout != 13 || got.RetryCount != 6 || got.RNRRetry != 5 ||
			got.MaxRDAtomic < 2 || got.AH.GID != rtr.AH.GID || got.AH.SGIDIndex != rtr.AH.SGIDIndex ||
			got.Access&(verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic) != verbs.RemoteWrite|verbs.RemoteRead {
			t.Fatalf("set were %+v and %+v, and it has %+v", rtr, rts, got)
		}
	}
	r.exchange(a, b)
	// What may change later.
	if err := a.Modify(verbs.Attr{MinRNRTimer: 9}, verbs.AttrMinRNRTimer); err != nil {
		t.Fatal(err)
	}
	if got := must(a.Query(verbs.AttrMinRNRTimer))(t); got.MinRNRTimer != 9 {
		t.Fatalf("9 was set: %+v", got)
	}
	r.exchange(a, b)
	r.drain()
}

// A change that is not allowed says in which state the pair is, which is wanted, and what is missing or too much.
func checkModifyMisuse(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.newEndpoint(verbs.QPConfig{}), r.newEndpoint(verbs.QPConfig{})
	steps := a.connectAttrs(b)
	refuse := func(to verbs.State, mask verbs.AttrMask, names ...string) {
		t.Helper()
		before := must(a.State())(t)
		e := r.checkError(a.Modify(steps[to], mask), verbs.ErrState, "a wrong change")
		for _, name := range append(names, before.String(), to.String()) {
			if !strings.Contains(e.Error(), name) || e.QPN != a.Num() {
				t.Fatalf("%v does not name queue pair %#x and %s", e, a.Num(), name)
			}
		}
		if after := must(a.State())(t); after != before {
			t.Fatalf("a change that was refused has taken it from %v to %v", before, after)
		}
	}
	refuse(verbs.StateRTS, toRTS)
	refuse(verbs.StateRTR, toRTR&^verbs.AttrDestQPN, "missing DestQPN")
	refuse(verbs.StateRTR, toRTR&^(verbs.AttrMTU|verbs.AttrRQPSN), "MTU", "RQPSN")
	refuse(verbs.StateRTR, toRTR|verbs.AttrTimeout, "Timeout")
	r.modify(a, steps[verbs.StateRTR], toRTR)
	refuse(verbs.StateInit, toInit)
	refuse(verbs.StateRTS, toRTS&^verbs.AttrRetryCount, "missing RetryCount")
	refuse(verbs.StateRTS, toRTS|verbs.AttrDestQPN, "DestQPN")
	r.modify(a, steps[verbs.StateRTS], toRTS)
	refuse(verbs.StateRTR, toRTR)
	r.modify(a, verbs.Attr{State: verbs.StateErr}, verbs.AttrState)
	refuse(verbs.StateRTS, toRTS)
	r.modify(a, verbs.Attr{State: verbs.StateReset}, verbs.AttrState)
	refuse(verbs.StateInit, toInit&^verbs.AttrPort, "missing Port")
	r.modify(a, steps[verbs.StateInit], toInit)
	wrong := steps[verbs.StateInit]
	wrong.Port = r.caps.Ports + 1
	if err := r.checkError(a.Modify(wrong, toInit), verbs.ErrInvalid, "a wrong port"); err.QPN != a.Num() {
		t.Fatalf("%v does not name queue pair %#x", err, a.Num())
	}
}

// reconnect resets two pairs and connects them anew.
func (r *fixture) reconnect(a, b *endpoint) {
	r.t.Helper()
	for _, way := range [][2]*endpoint{{a, b}, {b, a}} {
		e, steps := way[0], way[0].connectAttrs(way[1])
		r.modify(e, verbs.Attr{State: verbs.StateReset}, verbs.AttrState)
		r.poll() // what had completed
		r.tracker.drop(queueID{e.Num(), false})
		r.tracker.drop(queueID{e.Num(), true})
		r.modify(e, steps[verbs.StateInit], toInit)
		r.modify(e, steps[verbs.StateRTR], toRTR)
		r.modify(e, steps[verbs.StateRTS], toRTS)
	}
}

// A pair that was reset has forgotten what was queued, and can be used as if it were new, even if it had failed.
func checkReset(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.newEndpoint(verbs.QPConfig{}), r.newEndpoint(verbs.QPConfig{})
	for round := range 4 {
		r.reconnect(a, b)
		r.exchange(a, b)
		r.drain()
		if round == 2 {
			r.modify(b, verbs.Attr{State: verbs.StateErr}, verbs.AttrState)
			r.checkFailed(b)
		}
		for range 5 { // are forgotten
			a.postRecv(a.mr.SGE(0, 8))
			a.post(verbs.Request{Op: verbs.OpSend, SGE: sgeList(a.mr, 0, 8)})
		}
	}
	a.close()
	r.drain()
}

// Requests can be posted only in states that allow it.
func checkPostState(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.newEndpoint(verbs.QPConfig{}), r.newEndpoint(verbs.QPConfig{})
	steps := a.connectAttrs(b)
	noSend := func(kind error, state string) {
		t.Helper()
		id := r.tracker.nextID()
		a.checkPostError(id, a.Send(id, 0, a.mr.SGE(0, 8)), kind, "a SEND in "+state)
		a.checkPostError(id, a.Read(id, 0, b.mr.Remote(0), a.mr.SGE(0, 8)), kind, "a READ in "+state)
	}
	r.modify(a, verbs.Attr{State: verbs.StateReset}, verbs.AttrState)
	noSend(verbs.ErrState, "RESET")
	id := r.tracker.nextID()
	a.checkPostError(id, a.Recv(id, a.mr.SGE(0, 8)), verbs.ErrState, "a receive in RESET")
	r.modify(a, steps[verbs.StateInit], toInit)
	noSend(verbs.ErrState, "INIT")
	first := a.postRecv(a.mr.SGE(0, 8))
	r.modify(a, steps[verbs.StateRTR], toRTR)
	noSend(verbs.ErrState, "RTR")
	second := a.postRecv(a.mr.SGE(8, 8))
	r.modify(a, steps[verbs.StateRTS], toRTS)

	r.modify(b, b.connectAttrs(a)[verbs.StateRTR], toRTR)
	r.modify(b, b.connectAttrs(a)[verbs.StateRTS], toRTS)
	r.awaitSuccess(b.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(b.mr, 0, 8)}), first)
	r.awaitSuccess(b.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(b.mr, 8, 8)}), second)
	checkBytes(t, "what was received", a.buf[:16], b.buf[:16])
	r.drain()

	a.close()
	noSend(verbs.ErrClosed, "no state")
	a.checkPostError(id, a.Recv(id, a.mr.SGE(0, 8)), verbs.ErrClosed, "a receive after Close")
	r.checkError(a.Ring(), verbs.ErrClosed, "ring after Close")
	r.checkError(a.Modify(steps[verbs.StateInit], toInit), verbs.ErrClosed, "modify after Close")
	_, err := a.State()
	r.checkError(err, verbs.ErrClosed, "query after Close")
	r.checkError(a.Connect(b.address()), verbs.ErrClosed, "connect after Close")
}
