package verbs

import (
	"net/netip"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// AHAttr is an address vector: the address of a peer, and how packets reach it.
type AHAttr struct {
	GID          netip.Addr // of the peer; not valid on InfiniBand within a subnet, and the next four fields are unused then
	SGIDIndex    uint8      // index of the local GID
	FlowLabel    uint32     // 20 bits; a value other than 0 spreads the paths through the network
	HopLimit     uint8
	TrafficClass uint8  // DSCP in the upper six bits
	LID          uint16 // of the peer, InfiniBand only
	SL           uint8  // service level: the priority on Ethernet
	PathBits     uint8
	StaticRate   uint8
	Port         uint8
}

// AH is an address handle: the address of a peer, which datagrams need. Its methods may be called by any goroutine at any time.
type AH struct {
	base
	ib    ib.AH
	ahNum uint32 // of ib if it is an ib.HasAHNumber, else 0
}

// CreateAH creates an address handle. It may block until the address is resolved. It returns [ErrUnreachable] if it cannot be.
func (pd *PD) CreateAH(a AHAttr) (*AH, error) {
	const op = "create an address handle"
	h := &AH{base: pd.ctx.newBase(kindAH, &pd.base)}
	err := h.open(op, h.Close, func() (err error) {
		if h.ib, err = pd.ib.CreateAH(a.toIB()); err != nil {
			return err
		}
		if n, ok := h.ib.(ib.HasAHNumber); ok {
			h.ahNum = n.AHNumber()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Close closes the handle. Datagrams that are queued with it may be lost. A second Close does nothing.
func (h *AH) Close() error { return h.shutdown(h.ib.Close) }

// Dest returns the destination for datagrams from this UD queue pair to a peer. The caller must close its address handle.
func (q *QP) Dest(peer Address) (Dest, error) {
	const op = "create a destination"
	if err := q.enter(op); err != nil {
		return Dest{}, err
	}
	defer q.leave()
	q.control.Lock()
	defer q.control.Unlock()
	if peer.Type != UD || q.cfg.Type != UD {
		return Dest{}, q.refuse(op, ErrInvalid, "both queue pairs must be of type UD; they are %v and %v", q.cfg.Type, peer.Type)
	}
	_, port, err := q.address()
	if err != nil {
		return Dest{}, err
	}
	a, err := q.addressVector(op, peer, DefaultParams(), port)
	if err != nil {
		return Dest{}, err
	}
	ah, err := q.pd.CreateAH(a)
	if err != nil {
		return Dest{}, err
	}
	return Dest{AH: ah, QPN: peer.QPN, QKey: peer.QKey}, nil
}

// addressVector returns the address vector of a peer.
func (q *QP) addressVector(op string, peer Address, p Params, port PortAttr) (AHAttr, error) {
	a := AHAttr{Port: uint8(q.cfg.Port), SL: p.SL, LID: peer.LID}
	roce := uverbs.LinkLayer(port.LinkLayer) == uverbs.LinkLayerEthernet
	if !roce && samePrefix(q.local.Addr, peer.GID) {
		return a, nil
	}
	if !peer.GID.IsValid() {
		return a, q.refuse(op, ErrInvalid, "the peer's address has no GID")
	}
	if peerGID := (hw.GID{Addr: peer.GID, Type: q.local.Type}); peerGID.Family() != q.local.Family() {
		return a, q.refuse(op, ErrInvalid, "the local address %v and the peer's, %v, must be of the same family (see QPConfig.GID)",
			q.local.Addr, peer.GID)
	}
	a.GID, a.SGIDIndex = peer.GID, uint8(q.local.Index)
	a.HopLimit, a.TrafficClass, a.FlowLabel = p.HopLimit, p.TrafficClass, p.FlowLabel
	return a, nil
}

// samePrefix reports whether two InfiniBand ports are in the same subnet, or the GID of one of them is unknown.
func samePrefix(a, b netip.Addr) bool {
	x, y := gidBytes(a), gidBytes(b)
	return !a.IsValid() || !b.IsValid() || [8]byte(x[:8]) == [8]byte(y[:8])
}

// toIB converts the attributes to those of package ib.
func (a *AHAttr) toIB() ib.AHAttr {
	return ib.AHAttr{DGID: gidBytes(a.GID), FlowLabel: a.FlowLabel, SGIDIndex: a.SGIDIndex, HopLimit: a.HopLimit,
		TrafficClass: a.TrafficClass, Global: a.GID.IsValid(), DLID: a.LID, SL: a.SL, SrcPathBits: a.PathBits,
		StaticRate: a.StaticRate, Port: a.Port}
}

// ahAttrOf converts attributes of package ib.
func ahAttrOf(a *ib.AHAttr) AHAttr {
	return AHAttr{GID: gidAddr(a.DGID), FlowLabel: a.FlowLabel, SGIDIndex: a.SGIDIndex, HopLimit: a.HopLimit,
		TrafficClass: a.TrafficClass, LID: a.DLID, SL: a.SL, PathBits: a.SrcPathBits, StaticRate: a.StaticRate, Port: a.Port}
}
