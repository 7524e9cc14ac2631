package verbs

import (
	"net/netip"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// Params are what a connection can be tuned by. [DefaultParams] are a good start; the zero Params give up at once.
type Params struct {
	MTU          MTU   // 0 means what both ports can do
	Timeout      uint8 // see Attr
	RetryCount   uint8 // see Attr
	RNRRetry     uint8 // see Attr
	MinRNRTimer  uint8 // see Attr
	SL           uint8 // see AHAttr, also for the next three
	TrafficClass uint8
	HopLimit     uint8
	FlowLabel    uint32
}

// DefaultParams has a dead peer reported after about half a second to two seconds, and waits for receives for ever.
func DefaultParams() Params {
	const most = 6 // seven times is for ever with rxe
	return Params{Timeout: 14, RetryCount: most, RNRRetry: 7, MinRNRTimer: 12, HopLimit: 64}
}

// Address is what a peer needs to connect to this queue pair. It stays the same until the pair is reset.
func (q *QP) Address() (Address, error) {
	const op = "find the address"
	if err := q.enter(op); err != nil {
		return Address{}, err
	}
	defer q.leave()
	q.control.Lock()
	defer q.control.Unlock()
	a, _, err := q.address()
	return a, err
}

// address is Address for a caller that holds control. It chooses the GID when first called.
func (q *QP) address() (Address, PortAttr, error) {
	port, err := q.ctx.QueryPort(q.cfg.Port)
	if err != nil {
		return Address{}, port, err
	}
	if !q.chosen {
		if q.local, err = q.ctx.ChooseGID(q.cfg.Port, q.cfg.GID); err != nil {
			return Address{}, port, err
		}
		q.chosen = true
	}
	return Address{Type: q.cfg.Type, MTU: port.ActiveMTU, RDAtomic: uint8(min(q.ctx.caps.MaxQPRdAtom, 255)), LID: port.LID,
		QPN: q.num, PSN: q.psn, QKey: q.cfg.QKey, GID: q.local.Addr}, port, nil
}

// Connect brings an RC or UC queue pair to [StateRTS], connected to the peer with this address, which must do the same with
// ours. It may wait until the peer's address is resolved.
func (q *QP) Connect(peer Address) error { return q.ConnectWith(peer, DefaultParams()) }

// ConnectWith is Connect with parameters.
func (q *QP) ConnectWith(peer Address, p Params) error {
	const op = "connect"
	if err := q.enter(op); err != nil {
		return err
	}
	defer q.leave()
	q.control.Lock()
	defer q.control.Unlock()
	own, port, err := q.address()
	if err != nil {
		return err
	}
	if q.cfg.Type == UD {
		return q.refuse(op, ErrInvalid, "datagrams go to any peer; use Start, and Dest for each peer")
	}
	if peer.Type != own.Type {
		return q.refuse(op, ErrInvalid, "the peer's queue pair is of type %v, and this one of %v", peer.Type, own.Type)
	}
	if p.MTU == 0 {
		p.MTU = min(own.MTU, peer.MTU)
	}
	if p.MTU.Bytes() == 0 || p.MTU > own.MTU || p.MTU > peer.MTU {
		return q.refuse(op, ErrInvalid, "a path MTU of %v; our port can do %v and the peer's %v", p.MTU, own.MTU, peer.MTU)
	}
	ah, err := q.ahAttr(op, peer, p, port)
	if err != nil {
		return err
	}
	rtr := Attr{State: StateRTR, AH: ah, MTU: p.MTU, DestQPN: peer.QPN, RQPSN: peer.PSN, MaxDestRDAtomic: own.RDAtomic,
		MinRNRTimer: p.MinRNRTimer}
	rts := Attr{State: StateRTS, Timeout: p.Timeout, RetryCount: p.RetryCount, RNRRetry: p.RNRRetry, SQPSN: own.PSN,
		MaxRDAtomic: uint8(min(q.ctx.caps.MaxQPInitRdAtom, uint32(peer.RDAtomic)))}
	need := func(from, to State) AttrMask { return AttrState | transitions[step{from, to}].need[q.cfg.Type] }
	if err := q.modify(op, rtr, need(StateInit, StateRTR)); err != nil {
		return err
	}
	return q.modify(op, rts, need(StateRTR, StateRTS))
}

// Start brings a UD queue pair to [StateRTS].
func (q *QP) Start() error {
	const op = "start"
	if err := q.enter(op); err != nil {
		return err
	}
	defer q.leave()
	q.control.Lock()
	defer q.control.Unlock()
	if q.cfg.Type != UD {
		return q.refuse(op, ErrInvalid, "a queue pair of type %v needs a peer; use Connect", q.cfg.Type)
	}
	if err := q.modify(op, Attr{State: StateRTR}, AttrState); err != nil {
		return err
	}
	return q.modify(op, Attr{State: StateRTS, SQPSN: q.psn}, AttrState|AttrSQPSN)
}

// ahAttr is the address vector to a peer.
func (q *QP) ahAttr(op string, peer Address, p Params, port PortAttr) (AHAttr, error) {
	a := AHAttr{Port: uint8(q.cfg.Port), SL: p.SL, LID: peer.LID}
	roce := uverbs.LinkLayer(port.LinkLayer) == uverbs.LinkLayerEthernet
	if !roce && samePrefix(q.local.Addr, peer.GID) {
		return a, nil
	}
	if !peer.GID.IsValid() {
		return a, q.refuse(op, ErrInvalid, "the peer's address has no GID")
	}
	if theirs := (hw.GID{Addr: peer.GID, Type: q.local.Type}); theirs.Family() != q.local.Family() {
		return a, q.refuse(op, ErrInvalid, "our address is %v and the peer's %v: both need one of the same family, see QPConfig.GID",
			q.local.Addr, peer.GID)
	}
	a.GID, a.SGIDIndex = peer.GID, uint8(q.local.Index)
	a.HopLimit, a.TrafficClass, a.FlowLabel = p.HopLimit, p.TrafficClass, p.FlowLabel
	return a, nil
}

// samePrefix tells whether two InfiniBand ports are in one subnet, or one of them does not say.
func samePrefix(a, b netip.Addr) bool {
	x, y := gidBytes(a), gidBytes(b)
	return !a.IsValid() || !b.IsValid() || [8]byte(x[:8]) == [8]byte(y[:8])
}

// AH is an address handle: a peer, as datagrams need it. Its methods may be called by any goroutine at any time.
type AH struct {
	base
	ib ib.AH
}

// CreateAH makes an address handle. It may wait until the address is resolved; [ErrUnreachable] if it cannot be.
func (pd *PD) CreateAH(a AHAttr) (*AH, error) {
	const op = "make an address handle"
	h := &AH{base: pd.ctx.child(kindAH, &pd.base)}
	err := h.open(op, h.Close, func() (err error) {
		h.ib, err = pd.ib.CreateAH(a.attr())
		return err
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Close closes the handle. Datagrams that are queued with it may not be sent. A second Close does nothing.
func (h *AH) Close() error { return h.shut(h.ib.Close) }

// Dest makes what datagrams of a UD queue pair need to reach a peer's. Its address handle is the caller's to close.
func (q *QP) Dest(peer Address) (Dest, error) {
	const op = "make a destination"
	if err := q.enter(op); err != nil {
		return Dest{}, err
	}
	defer q.leave()
	q.control.Lock()
	defer q.control.Unlock()
	if peer.Type != UD || q.cfg.Type != UD {
		return Dest{}, q.refuse(op, ErrInvalid, "both queue pairs must be of type UD, and are of %v and %v", q.cfg.Type, peer.Type)
	}
	_, port, err := q.address()
	if err != nil {
		return Dest{}, err
	}
	a, err := q.ahAttr(op, peer, DefaultParams(), port)
	if err != nil {
		return Dest{}, err
	}
	ah, err := q.pd.CreateAH(a)
	if err != nil {
		return Dest{}, err
	}
	return Dest{AH: ah, QPN: peer.QPN, QKey: peer.QKey}, nil
}
