package verbstest

import "github.com/ibrun/ibrun/verbs"

// endpoint is a queue pair with its own completion queue and registered memory.
type endpoint struct {
	*verbs.QP
	r         *fixture
	cq        *verbs.CQ
	srq       *verbs.SRQ
	buf       []byte
	mr        *verbs.MR
	signalAll bool // every send is signaled
}

// bufferSize is the number of bytes that each endpoint registers.
const bufferSize = 1 << 17

// newEndpoint makes a queue pair in state INIT. It chooses defaults for empty fields of the configuration. Every other pair is
// serialized: one goroutine makes all calls.
func (r *fixture) newEndpoint(cfg verbs.QPConfig) *endpoint {
	r.t.Helper()
	if cfg.Type == 0 {
		cfg.Type = verbs.RC
	}
	if cfg.Access == 0 {
		cfg.Access = verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic
	}
	if cfg.Type != verbs.RC {
		cfg.Access &= verbs.RemoteWrite
	}
	if cfg.SendCQ == nil {
		cfg.SendCQ = r.cq(256, nil)
	}
	if cfg.Type == verbs.UD && cfg.QKey == 0 {
		cfg.QKey = 0x11111111
	}
	cfg.PKeyIndex = r.pkeyIndex
	if !r.threads {
		r.serialized = !r.serialized
		cfg.Serialized = cfg.Serialized || r.serialized
	}
	e := &endpoint{r: r, cq: cfg.SendCQ, srq: cfg.SRQ, signalAll: cfg.SignalAll, QP: must(r.pd.CreateQP(cfg))(r.t)}
	e.buf, e.mr = r.region(bufferSize, uint64(e.Num()))
	return e
}

// pair makes two connected queue pairs.
func (r *fixture) pair(cfg verbs.QPConfig) (a, b *endpoint) {
	r.t.Helper()
	return r.pairWith(cfg, verbs.DefaultParams())
}

func (r *fixture) pairWith(cfg verbs.QPConfig, p verbs.Params) (a, b *endpoint) {
	r.t.Helper()
	a, b = r.newEndpoint(cfg), r.newEndpoint(cfg)
	a.connect(b, p)
	b.connect(a, p)
	return a, b
}

// connect connects to a peer. The address is encoded and decoded, as when it travels over a network.
func (e *endpoint) connect(to *endpoint, p verbs.Params) {
	e.r.t.Helper()
	if err := e.ConnectWith(to.address(), p); err != nil {
		e.r.t.Fatal(err)
	}
}

func (e *endpoint) address() verbs.Address {
	e.r.t.Helper()
	blob := must(must(e.Address())(e.r.t).MarshalBinary())(e.r.t)
	var a verbs.Address
	if err := a.UnmarshalBinary(blob); err != nil {
		e.r.t.Fatal(err)
	}
	return a
}

// fastFailParams returns parameters for connections that shall fail soon.
func fastFailParams() verbs.Params {
	p := verbs.DefaultParams()
	p.Timeout, p.RetryCount, p.RNRRetry, p.MinRNRTimer = 10, 1, 1, 1
	return p
}

// completionOpcodes maps the opcode of a send request to the opcode of its completion.
var completionOpcodes = map[verbs.Opcode]verbs.WCOpcode{
	verbs.OpSend: verbs.WCSend, verbs.OpSendImm: verbs.WCSend, verbs.OpSendInvalidate: verbs.WCSend,
	verbs.OpWrite: verbs.WCWrite, verbs.OpWriteImm: verbs.WCWrite, verbs.OpRead: verbs.WCRead,
	verbs.OpCompareSwap: verbs.WCCompareSwap, verbs.OpFetchAdd: verbs.WCFetchAdd,
	verbs.OpBindMW: verbs.WCBindMW, verbs.OpLocalInvalidate: verbs.WCLocalInvalidate,
}

// expectCompletion records a posted send request, and fails the test if posting failed. It returns the id.
func (e *endpoint) expectCompletion(id uint64, op verbs.Opcode, f verbs.Flags, err error) uint64 {
	e.r.t.Helper()
	if err != nil {
		e.r.t.Fatal(err)
	}
	e.r.tracker.add(pendingRequest{id: id, queue: queueID{e.Num(), false}, op: completionOpcodes[op],
		unsignaled: f&verbs.Signaled == 0 && !e.signalAll})
	return id
}

// post posts a request and returns its number.
func (e *endpoint) post(q verbs.Request) uint64 {
	e.r.t.Helper()
	q.ID = e.r.tracker.nextID()
	return e.expectCompletion(q.ID, q.Op, q.Flags, e.Post(&q))
}

// postAndRing posts a signaled request and rings the doorbell, alternately by the flag and by a call.
func (e *endpoint) postAndRing(q verbs.Request) uint64 {
	e.r.t.Helper()
	q.Flags |= verbs.Signaled
	if e.r.ringByFlag = !e.r.ringByFlag; e.r.ringByFlag {
		q.Flags |= verbs.RingDoorbell
	}
	id := e.post(q)
	if !e.r.ringByFlag {
		e.ringDoorbell()
	}
	return id
}

func (e *endpoint) ringDoorbell() {
	e.r.t.Helper()
	if err := e.Ring(); err != nil {
		e.r.t.Fatal(err)
	}
}

// postRecv posts a receive and returns its number.
func (e *endpoint) postRecv(sge ...verbs.SGE) uint64 {
	e.r.t.Helper()
	id := e.r.tracker.nextID()
	if e.srq != nil {
		return e.r.postSharedRecv(e.srq, id, sge...)
	}
	if err := e.Recv(id, sge...); err != nil {
		e.r.t.Fatal(err)
	}
	e.r.tracker.add(pendingRequest{id: id, queue: queueID{e.Num(), true}, op: verbs.WCRecv})
	return id
}

func (r *fixture) postSharedRecv(srq *verbs.SRQ, id uint64, sge ...verbs.SGE) uint64 {
	r.t.Helper()
	if err := srq.Recv(id, sge...); err != nil {
		r.t.Fatal(err)
	}
	r.tracker.add(pendingRequest{id: id, op: verbs.WCRecv, shared: true})
	return id
}

// close closes the queue pair. Its pending requests are no longer expected to complete.
func (e *endpoint) close() {
	e.r.t.Helper()
	if err := e.Close(); err != nil {
		e.r.t.Fatal(err)
	}
	e.r.poll() // records earlier completions
	e.r.tracker.drop(queueID{e.Num(), false})
	e.r.tracker.drop(queueID{e.Num(), true})
}
