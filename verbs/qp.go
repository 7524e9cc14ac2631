package verbs

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"sync"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/rxe"
)

// QP is a queue pair. Its methods may be called by any goroutine at any time.
type QP struct {
	base
	ib    ib.QP
	pd    *PD
	soft  *rxe.SendQueue // of ib, if that is the provider: requests go straight into it, and it is rung without the lock
	cfg   QPConfig
	token uint64

	control sync.Mutex // one change of state at a time; guards the next three
	psn     uint32     // of the first packet that is sent
	local   hw.GID     // the address that was told to the peer
	chosen  bool

	send sendQueue
	recv recvQueue
}

// QPConfig says what queue pair to make.
type QPConfig struct {
	Type   QPType
	SendCQ *CQ  // where sends complete
	RecvCQ *CQ  // where receives complete, nil for SendCQ
	SRQ    *SRQ // where receives are taken from, nil for a queue of its own

	MaxSend, MaxRecv       int  // requests queued at the same time, 0 means 64
	MaxSendSGE, MaxRecvSGE int  // entries of a scatter/gather list, 0 means 1
	MaxInline              int  // bytes of an inline message
	SignalAll              bool // every send makes a completion, as if it were Signaled

	Port      int    // 0 means the first that is active
	PKeyIndex int    // of the partition key
	Access    Access // what peers may do through the pair: RemoteWrite, RemoteRead, RemoteAtomic
	QKey      uint32 // of UD: what datagrams to this pair must carry

	// GID is the address that the pair has on the network, such as 192.168.7.1; not valid leaves the choice to the rule.
	GID netip.Addr
}

// CreateQP makes a queue pair and brings it to [StateInit], in which receives can be posted. [QP.Connect] does the rest, or
// [QP.Modify] in single steps.
func (pd *PD) CreateQP(cfg QPConfig) (*QP, error) {
	const op = "make a queue pair"
	if cfg.SendCQ == nil {
		return nil, pd.refuse(op, ErrInvalid, "it has no completion queue")
	}
	if cfg.RecvCQ == nil {
		cfg.RecvCQ = cfg.SendCQ
	}
	if int(cfg.Type) >= len(sends) || sends[cfg.Type] == 0 {
		return nil, pd.refuse(op, ErrInvalid, "there is no queue pair of %v", cfg.Type)
	}
	if least := min(cfg.MaxSend, cfg.MaxRecv, cfg.MaxSendSGE, cfg.MaxRecvSGE, cfg.MaxInline); least < 0 {
		return nil, pd.refuse(op, ErrInvalid, "a size of %d", least)
	}
	init := ib.QPInit{Type: uint8(cfg.Type), SendCQ: cfg.SendCQ.ib, RecvCQ: cfg.RecvCQ.ib, SignalAll: cfg.SignalAll, Cap: ib.Cap{
		SendWR: uint32(cmp.Or(cfg.MaxSend, 64)), RecvWR: uint32(cmp.Or(cfg.MaxRecv, 64)),
		SendSGE: uint32(cmp.Or(cfg.MaxSendSGE, 1)), RecvSGE: uint32(cmp.Or(cfg.MaxRecvSGE, 1)), Inline: uint32(cfg.MaxInline),
	}}
	if err := pd.checkCap(op, init.Cap); err != nil {
		return nil, err
	}
	q := &QP{base: pd.ctx.child(kindQP, &pd.base, &cfg.SendCQ.base, &cfg.RecvCQ.base), pd: pd, psn: rand.Uint32() & most24}
	q.onLoss = q.loseDevice
	if cfg.SRQ != nil {
		q.uses = append(q.uses, &cfg.SRQ.base)
		init.SRQ, init.Cap.RecvWR, init.Cap.RecvSGE = cfg.SRQ.ib, 0, 0
	}
	port, attr, err := pd.ctx.port(op, cfg.Port)
	if err != nil {
		return nil, err
	}
	if cfg.PKeyIndex < 0 || cfg.PKeyIndex >= int(attr.PKeyTableLen) { // rxe takes any
		return nil, pd.refuse(op, ErrInvalid, "partition key %d; the port has %d", cfg.PKeyIndex, attr.PKeyTableLen)
	}
	cfg.Port = port
	err = q.open(op, q.Close, func() (err error) {
		if q.ib, err = pd.ib.CreateQP(init); err == nil {
			q.complete(cfg, attr)
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

// complete fills in what is known once the device has made the pair.
func (q *QP) complete(cfg QPConfig, port PortAttr) {
	q.cfg, q.num, q.token = cfg, q.ib.Num(), q.ib.Token()
	q.soft = rxe.SendsOf(q.ib)
	c := q.ib.Cap()
	longest := uint64(port.MaxMsgSize)
	if cfg.Type == UD {
		longest = uint64(port.ActiveMTU.Bytes())
	}
	q.send = sendQueue{allowed: sends[cfg.Type], longest: longest, sge: make([]ib.SGE, c.SendSGE), inline: make([]byte, c.Inline)}
	q.recv = recvQueue{base: &q.base, pair: q, ib: q.ib, soft: rxe.RecvsOf(q.ib),
		shared: cfg.SRQ != nil, sge: make([]ib.SGE, c.RecvSGE)}
	q.ctx.known(q.token, q)
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

// port finds the port to use: the one that is wanted, or with 0 the first that is active.
func (c *Context) port(op string, want int) (int, PortAttr, error) {
	if want != 0 {
		a, err := c.QueryPort(want)
		return want, a, err
	}
	for p := 1; p <= int(c.caps.Ports); p++ {
		if a, err := c.QueryPort(p); err != nil || a.State == PortActive {
			return p, a, err
		}
	}
	return 0, PortAttr{}, c.refuse(op, ErrUnreachable, "no port is active; is the link up?")
}

func (q *QP) toInit() error {
	a := Attr{State: StateInit, PKeyIndex: uint16(q.cfg.PKeyIndex), Port: uint8(q.cfg.Port), Access: q.cfg.Access, QKey: q.cfg.QKey}
	mask := AttrState | AttrPKeyIndex | AttrPort
	if q.cfg.Type == UD {
		return q.Modify(a, mask|AttrQKey)
	}
	return q.Modify(a, mask|AttrAccess)
}

// Num is the number of the queue pair, which is unique on its device while it exists.
func (q *QP) Num() uint32 { return q.num }

// Type is the transport of the queue pair.
func (q *QP) Type() QPType { return q.cfg.Type }

// Cap says what the queue pair can hold, which may be more than was asked for.
func (q *QP) Cap() Cap {
	c := q.ib.Cap()
	return Cap{MaxSend: int(c.SendWR), MaxRecv: int(c.RecvWR), MaxSendSGE: int(c.SendSGE), MaxRecvSGE: int(c.RecvSGE),
		MaxInline: int(c.Inline)}
}

// Cap is the size of a queue pair, in the terms of [QPConfig].
type Cap struct {
	MaxSend, MaxRecv, MaxSendSGE, MaxRecvSGE, MaxInline int
}

// AttachMulticast has a UD queue pair receive what is sent to a multicast group. LID is that of the group on InfiniBand,
// and 0 for RoCE.
func (q *QP) AttachMulticast(group netip.Addr, lid uint16) error {
	const op = "attach to a multicast group"
	if err := q.enter(op); err != nil {
		return err
	}
	defer q.leave()
	return q.fail(op, q.ib.AttachMulticast(gidBytes(group), lid))
}

// DetachMulticast ends AttachMulticast, without which the queue pair cannot be closed.
func (q *QP) DetachMulticast(group netip.Addr, lid uint16) error {
	const op = "detach from a multicast group"
	if err := q.enter(op); err != nil {
		return err
	}
	defer q.leave()
	return q.fail(op, q.ib.DetachMulticast(gidBytes(group), lid))
}

// loseDevice has nothing be posted any more.
func (q *QP) loseDevice() {
	q.send.mu.Lock()
	q.recv.mu.Lock()
	defer q.send.mu.Unlock()
	defer q.recv.mu.Unlock()
	q.send.state, q.recv.open, q.recv.lost = sendLost, false, true
}

// Close closes the queue pair. Requests that did not complete will not. While it is attached to a multicast group, or a memory
// window of type 2 was bound to it last, it is [ErrBusy]: rxe of Linux 6.1 would wait for the window for 50 seconds, and then
// forget the pair. A second Close does nothing.
func (q *QP) Close() error {
	return q.shut(func() error {
		q.send.mu.Lock()
		q.recv.mu.Lock()
		defer q.send.mu.Unlock()
		defer q.recv.mu.Unlock()
		err := q.ib.Close()
		if kindOf(err) != ErrBusy {
			q.send.state, q.recv.open, q.recv.closed = sendClosed, false, true
			q.ctx.forget(q.token)
		}
		return err
	})
}
