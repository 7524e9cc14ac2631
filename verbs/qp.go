package verbs

import (
	"cmp"
	"math"
	"math/rand/v2"
	"net/netip"
	"sync"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// QP is a queue pair. Its methods may be called by any goroutine at any time.
type QP struct {
	base
	ib       ib.QP
	pd       *PD
	sendRing *ib.SendRing // of ib, or nil if ib has none. Requests are written directly into it
	cfg      QPConfig
	token    uint64

	control   sync.Mutex // serializes changes of state; guards the next four fields
	state     State      // that was set last; the device may have changed it to ERR since
	psn       uint32     // sequence number of the first packet sent
	local     hw.GID     // the GID in Address
	gidChosen bool

	send sendQueue
	recv recvQueue
}

// QPConfig describes a queue pair to create.
type QPConfig struct {
	Type   QPType
	SendCQ *CQ  // for the completions of sends
	RecvCQ *CQ  // for the completions of receives, nil for SendCQ
	SRQ    *SRQ // the source of receives, nil for a receive queue of its own

	MaxSend, MaxRecv       int  // requests queued at the same time, 0 means 64
	MaxSendSGE, MaxRecvSGE int  // entries of a scatter/gather list, 0 means 1
	MaxInline              int  // bytes of an inline message
	SignalAll              bool // every send makes a completion, as if it had the flag Signaled

	// Serialized promises that the caller keeps calls on the pair apart, so that the pair takes no lock of its own to post. It is
	// the thread domain of rdma-core. These calls must not run at the same time as each other:
	//
	//   - calls that use the send queue: Post and all methods that queue a request, BindMW and Ring;
	//   - calls that use the receive queue of the pair: Recv and RecvList;
	//   - Modify and the methods that change the state by it (Connect, ConnectWith, Start), Close, and [Context.Close]: neither
	//     with each other nor with calls of the other two lists.
	//
	// A send and a receive may run at the same time, as may all other calls: Query and State, polls of the completion queues, and
	// the loss of the device. Each call must happen before the next one in the sense of Go's memory model, for example because both
	// are made with the same mutex held. The race detector reports calls that break the promise.
	Serialized bool

	Port      int    // 0 means the first active port
	PKeyIndex int    // index of the partition key
	Access    Access // what peers may do through the pair: RemoteWrite, RemoteRead, RemoteAtomic
	QKey      uint32 // UD only: datagrams to this pair must contain it

	// GID is the network address of the pair, such as 192.168.7.1. If it is not valid, ChooseGID chooses one.
	GID netip.Addr
	// GIDIndex is the index of that address in the GID table, also of one that ChooseGID would not choose. If nil, GID counts.
	// With both, the entry of this index is used, unless its address is not GID and that of another RoCE v2 entry is: an address
	// gets another index when it is removed and added again.
	GIDIndex *int
}

// CreateQP creates a queue pair and brings it to [StateInit], in which receives can be posted. [QP.Connect] does the rest, or
// [QP.Modify] step by step.
func (pd *PD) CreateQP(cfg QPConfig) (*QP, error) {
	const op = "create a queue pair"
	if cfg.SendCQ == nil {
		return nil, pd.refuse(op, ErrInvalid, "SendCQ is nil")
	}
	if cfg.RecvCQ == nil {
		cfg.RecvCQ = cfg.SendCQ
	}
	if int(cfg.Type) >= len(sendOpcodes) || sendOpcodes[cfg.Type] == 0 {
		return nil, pd.refuse(op, ErrInvalid, "unsupported queue pair type: %v", cfg.Type)
	}
	if smallest := min(cfg.MaxSend, cfg.MaxRecv, cfg.MaxSendSGE, cfg.MaxRecvSGE, cfg.MaxInline); smallest < 0 {
		return nil, pd.refuse(op, ErrInvalid, "negative size %d", smallest)
	}
	init := ib.QPInit{Type: uint8(cfg.Type), SendCQ: cfg.SendCQ.ib, RecvCQ: cfg.RecvCQ.ib, SignalAll: cfg.SignalAll, Cap: ib.Cap{
		SendWR: uint32(cmp.Or(cfg.MaxSend, 64)), RecvWR: uint32(cmp.Or(cfg.MaxRecv, 64)),
		SendSGE: uint32(cmp.Or(cfg.MaxSendSGE, 1)), RecvSGE: uint32(cmp.Or(cfg.MaxRecvSGE, 1)), Inline: uint32(cfg.MaxInline),
	}}
	if cfg.SRQ != nil {
		init.SRQ, init.Cap.RecvWR, init.Cap.RecvSGE = cfg.SRQ.ib, 0, 0
	}
	if err := pd.checkCap(op, init.Cap); err != nil {
		return nil, err
	}
	q := &QP{base: pd.ctx.newBase(kindQP, &pd.base, &cfg.SendCQ.base, &cfg.RecvCQ.base), pd: pd, psn: rand.Uint32() & max24}
	q.onDeviceLost = q.deviceLost
	if cfg.SRQ != nil {
		q.uses = append(q.uses, &cfg.SRQ.base)
	}
	port, attr, err := pd.ctx.port(op, cfg.Port)
	if err != nil {
		return nil, err
	}
	if cfg.PKeyIndex < 0 || cfg.PKeyIndex >= max(1, int(attr.PKeyTableLen)) { // rxe accepts any
		return nil, pd.refuse(op, ErrInvalid, "partition key index %d is out of range; the port has %d keys",
			cfg.PKeyIndex, attr.PKeyTableLen)
	}
	cfg.Port = port
	err = q.open(op, q.Close, func() (err error) {
		if q.ib, err = pd.ib.CreateQP(init); err == nil {
			q.init(cfg, attr)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := q.toInit(); err != nil {
		q.Close()
		return nil, err
	}
	return q, nil
}

// init sets the fields that are known when the device has created the pair.
func (q *QP) init(cfg QPConfig, port PortAttr) {
	q.cfg, q.num, q.token = cfg, q.ib.Num(), q.ib.Token()
	c := q.ib.Cap()
	maxMessage := cmp.Or(uint64(port.MaxMsgSize), math.MaxUint32) // some drivers do not report it
	if cfg.Type == UD {
		maxMessage = uint64(port.ActiveMTU.Bytes())
	}
	s, r := &q.send, &q.recv
	s.shared, s.supported, s.maxMessage = !cfg.Serialized, sendOpcodes[cfg.Type], maxMessage
	s.sge, s.inline = make([]ib.SGE, c.SendSGE), make([]byte, c.Inline)
	r.shared, r.base, r.qp, r.ib, r.hasSRQ = !cfg.Serialized, &q.base, q, q.ib, cfg.SRQ != nil
	r.sge = make([]ib.SGE, c.RecvSGE)
	if r, ok := q.ib.(ib.HasSendRing); ok {
		q.sendRing = r.SendRing()
	}
	if r, ok := q.ib.(ib.HasRecvRing); ok {
		q.recv.ring = r.RecvRing()
	}
	q.ctx.register(q.token, q)
}

func (pd *PD) checkCap(op string, c ib.Cap) error {
	d := &pd.ctx.caps
	if max(c.SendWR, c.RecvWR) > d.MaxQPWR {
		return pd.refuse(op, ErrInvalid, "%d sends and %d receives; the device takes %d each",
			int32(c.SendWR), int32(c.RecvWR), d.MaxQPWR)
	}
	if max(c.SendSGE, c.RecvSGE) > d.MaxSGE {
		return pd.refuse(op, ErrInvalid, "%d and %d entries in a list; the device takes %d",
			int32(c.SendSGE), int32(c.RecvSGE), d.MaxSGE)
	}
	return nil
}

// port returns the port to use: the requested one, or with 0 the first active port.
func (c *Context) port(op string, want int) (int, PortAttr, error) {
	if want != 0 {
		a, err := c.knownPort(want)
		return want, a, err
	}
	for p := 1; p <= int(c.caps.Ports); p++ {
		if a, err := c.QueryPort(p); err != nil || a.State == PortActive {
			return p, a, err
		}
	}
	return 0, PortAttr{}, c.refuse(op, ErrUnreachable, "no port is active; check that the link is up")
}

// toInit changes the state to INIT.
func (q *QP) toInit() error {
	a := Attr{State: StateInit, PKeyIndex: uint16(q.cfg.PKeyIndex), Port: uint8(q.cfg.Port), Access: q.cfg.Access, QKey: q.cfg.QKey}
	mask := AttrState | AttrPKeyIndex | AttrPort
	if q.cfg.Type == UD {
		return q.Modify(a, mask|AttrQKey)
	}
	return q.Modify(a, mask|AttrAccess)
}

// Num returns the number of the queue pair, which is unique on its device while it exists.
func (q *QP) Num() uint32 { return q.num }

// Type returns the transport of the queue pair.
func (q *QP) Type() QPType { return q.cfg.Type }

// Cap returns the sizes of the queue pair, which may be larger than requested.
func (q *QP) Cap() Cap {
	c := q.ib.Cap()
	return Cap{MaxSend: int(c.SendWR), MaxRecv: int(c.RecvWR), MaxSendSGE: int(c.SendSGE), MaxRecvSGE: int(c.RecvSGE),
		MaxInline: int(c.Inline)}
}

// Cap is the sizes of a queue pair, with the names of [QPConfig].
type Cap struct {
	MaxSend, MaxRecv, MaxSendSGE, MaxRecvSGE, MaxInline int
}

// Close closes the queue pair. Requests that have not completed never complete. Close returns [ErrBusy] while the pair is
// attached to a multicast group, or if a memory window of type 2 was bound to it last: rxe of Linux 6.1 would wait for the window
// for 50 seconds, and then leak the pair. A second Close does nothing.
func (q *QP) Close() error {
	return q.shutdown(func() error {
		q.send.lockState()
		q.recv.lockState()
		defer q.send.mu.Unlock()
		defer q.recv.mu.Unlock()
		err := q.ib.Close()
		if kindOf(err) != ErrBusy {
			q.send.state.Store(sendClosed)
			q.recv.open.Store(false)
			q.recv.closed = true
			q.ctx.unregister(q.token)
		}
		return err
	})
}
