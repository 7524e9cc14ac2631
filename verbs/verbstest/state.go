package verbstest

import (
	"strings"
	"testing"

	"github.com/ibrun/ibrun/verbs"
)

// The attribute masks of the state changes of an RC queue pair.
const (
	toInit = verbs.AttrState | verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAccess
	toRTR  = verbs.AttrState | verbs.AttrAH | verbs.AttrMTU | verbs.AttrDestQPN | verbs.AttrRQPSN | verbs.AttrMaxDestRDAtomic |
		verbs.AttrMinRNRTimer
	toRTS = verbs.AttrState | verbs.AttrTimeout | verbs.AttrRetryCount | verbs.AttrRNRRetry | verbs.AttrSQPSN | verbs.AttrMaxRDAtomic
)

// connectAttrs returns the attributes that connect e to a peer, for each state.
func (e *endpoint) connectAttrs(to *endpoint) map[verbs.State]verbs.Attr {
	e.r.t.Helper()
	port := uint8(e.r.portNumber())
	gid := must(e.r.ctx.ChooseGID(int(port), e.address().GID))(e.r.t)
	return map[verbs.State]verbs.Attr{
		verbs.StateInit: {State: verbs.StateInit, Port: port, PKeyIndex: uint16(e.r.pkeyIndex),
			Access: verbs.RemoteWrite | verbs.RemoteRead},
		verbs.StateRTR: {State: verbs.StateRTR, MTU: verbs.MTU512, DestQPN: to.Num(), RQPSN: to.Num() & 0xffff, MinRNRTimer: 5,
			MaxDestRDAtomic: e.r.readDepth(3), AH: verbs.AHAttr{GID: to.address().GID, SGIDIndex: uint8(gid.Index),
				LID: to.address().LID, HopLimit: 64, TrafficClass: 32, Port: port}},
		verbs.StateRTS: {State: verbs.StateRTS, SQPSN: e.Num() & 0xffff, Timeout: 13, RetryCount: 6, RNRRetry: 5,
			MaxRDAtomic: e.r.readDepth(2)},
	}
}

// readDepth returns how many READs, at most n, both sides of a connection can have outstanding.
func (r *fixture) readDepth(n uint32) uint8 {
	return uint8(min(n, r.caps.MaxQPRdAtom, r.caps.MaxQPInitRdAtom))
}

// portNumber returns the number of the first active port.
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

// modify modifies a queue pair and checks its new state.
func (r *fixture) modify(e *endpoint, a verbs.Attr, mask verbs.AttrMask) {
	r.t.Helper()
	if err := e.Modify(a, mask); err != nil {
		r.t.Fatal(err)
	}
	if s := must(e.State())(r.t); s != a.State {
		r.t.Fatalf("after a change to %v the queue pair is in %v", a.State, s)
	}
}

// A queue pair passes through its states one by one, and a query returns its attributes.
func checkModify(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.newEndpoint(verbs.QPConfig{}), r.newEndpoint(verbs.QPConfig{})
	r.reconnect(a, b)
	for _, ends := range [][2]*endpoint{{a, b}, {b, a}} {
		e, to, steps := ends[0], ends[1], ends[0].connectAttrs(ends[1])
		got := must(e.Query(toInit | toRTR | toRTS))(t)
		rtr, rts := steps[verbs.StateRTR], steps[verbs.StateRTS]
		if got.State != verbs.StateRTS || got.MTU != rtr.MTU || got.DestQPN != to.Num() ||
			got.RQPSN != rtr.RQPSN || got.SQPSN != rts.SQPSN ||
			got.MaxDestRDAtomic < rtr.MaxDestRDAtomic ||
			got.MinRNRTimer != 5 || got.Timeout != 13 || got.RetryCount != 6 || got.RNRRetry != 5 ||
			got.MaxRDAtomic < rts.MaxRDAtomic || got.AH.GID != rtr.AH.GID || got.AH.SGIDIndex != rtr.AH.SGIDIndex ||
			got.Access&(verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic) != verbs.RemoteWrite|verbs.RemoteRead {
			t.Fatalf("set %+v and %+v, but the query returned %+v", rtr, rts, got)
		}
	}
	r.exchange(a, b)
	// MinRNRTimer may change in state RTS.
	if err := a.Modify(verbs.Attr{MinRNRTimer: 9}, verbs.AttrMinRNRTimer); err != nil {
		t.Fatal(err)
	}
	if got := must(a.Query(verbs.AttrMinRNRTimer))(t); got.MinRNRTimer != 9 {
		t.Fatalf("9 was set: %+v", got)
	}
	r.exchange(a, b)
	r.drain()
}

// The error of an invalid change names the current state, the requested state, and the missing or excess attributes.
func checkModifyMisuse(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b := r.newEndpoint(verbs.QPConfig{}), r.newEndpoint(verbs.QPConfig{})
	steps := a.connectAttrs(b)
	refuse := func(to verbs.State, mask verbs.AttrMask, names ...string) {
		t.Helper()
		before := must(a.State())(t)
		e := r.checkError(a.Modify(steps[to], mask), verbs.ErrState, "an invalid change")
		for _, name := range append(names, before.String(), to.String()) {
			if !strings.Contains(e.Error(), name) || e.QPN != a.Num() {
				t.Fatalf("%v does not name queue pair %#x and %s", e, a.Num(), name)
			}
		}
		if after := must(a.State())(t); after != before {
			t.Fatalf("a refused change took the queue pair from %v to %v", before, after)
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
	if err := r.checkError(a.Modify(wrong, toInit), verbs.ErrInvalid, "an invalid port"); err.QPN != a.Num() {
		t.Fatalf("%v does not name queue pair %#x", err, a.Num())
	}
}

// reconnect resets two queue pairs and connects them again.
func (r *fixture) reconnect(a, b *endpoint) {
	r.t.Helper()
	for _, ends := range [][2]*endpoint{{a, b}, {b, a}} {
		e, steps := ends[0], ends[0].connectAttrs(ends[1])
		r.modify(e, verbs.Attr{State: verbs.StateReset}, verbs.AttrState)
		r.poll() // records earlier completions
		r.tracker.drop(queueID{e.Num(), false})
		r.tracker.drop(queueID{e.Num(), true})
		r.modify(e, steps[verbs.StateInit], toInit)
		r.modify(e, steps[verbs.StateRTR], toRTR)
		r.modify(e, steps[verbs.StateRTS], toRTS)
	}
}

// A reset removes all requests from a queue pair. It can be used like a new one afterwards, even after an error.
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
		for range 5 { // the next reset removes these
			a.postRecv(a.mr.SGE(0, 8))
			a.post(verbs.Request{Op: verbs.OpSend, SGE: sgeList(a.mr, 0, 8)})
		}
	}
	a.close()
	r.drain()
}

// Requests can be posted only in states that allow them.
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
	checkBytes(t, "the received bytes", a.buf[:16], b.buf[:16])
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
