package verbs

import (
	"math"
	"net/netip"

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

// Dest returns the destination for datagrams from this UD queue pair to a peer. The caller must close its address handle. The
// handle keeps the path to the peer as it is now: another LID, GID or MAC address of either port needs another Dest.
func (q *QP) Dest(peer Address) (Dest, error) { return q.DestWith(peer, DefaultParams()) }

// DestWith is Dest with parameters, of which those of the address vector are used.
func (q *QP) DestWith(peer Address, p Params) (Dest, error) {
	const op = "create a destination"
	if err := q.enter(op); err != nil {
		return Dest{}, err
	}
	defer q.leave()
	a, err := q.datagramVector(op, peer, p)
	if err != nil {
		return Dest{}, err
	}
	ah, err := q.pd.CreateAH(a)
	if err != nil {
		return Dest{}, err
	}
	return Dest{AH: ah, QPN: peer.QPN, QKey: peer.QKey}, nil
}

// datagramVector returns the address vector of a peer of a UD queue pair. Resolving it may block, so DestWith does that without
// the lock, which other calls need.
func (q *QP) datagramVector(op string, peer Address, p Params) (AHAttr, error) {
	q.control.Lock()
	defer q.control.Unlock()
	if peer.Type != UD || q.cfg.Type != UD {
		return AHAttr{}, q.refuse(op, ErrInvalid, "both queue pairs must be of type UD; they are %v and %v", q.cfg.Type, peer.Type)
	}
	own, err := q.address()
	if err != nil {
		return AHAttr{}, err
	}
	return q.addressVector(op, own, peer, p)
}

// addressVector returns the address vector of a peer. own is the present address of the queue pair.
func (q *QP) addressVector(op string, own, peer Address, p Params) (AHAttr, error) {
	if err := own.CheckPath(peer); err != nil {
		return AHAttr{}, q.refuse(op, ErrInvalid, "%s", err.(*Error).Detail)
	}
	a := AHAttr{Port: uint8(q.cfg.Port), SL: p.SL}
	if own.isInfiniBand() {
		a.LID, a.PathBits = peer.LID+uint16(p.Path&(1<<peer.LMC-1)), p.Path&(1<<own.LMC-1)
		if !own.NeedsGRH && !peer.NeedsGRH && samePrefix(own.GID, peer.GID) {
			return a, nil
		}
	}
	if !peer.GID.IsValid() {
		return a, q.refuse(op, ErrInvalid, "the peer's address has no GID")
	}
	if q.local.Index > math.MaxUint8 {
		return a, q.refuse(op, ErrInvalid, "the index of the local GID %v is larger than address vectors can hold", q.local)
	}
	a.GID, a.SGIDIndex = peer.GID, uint8(q.local.Index)
	a.HopLimit, a.TrafficClass, a.FlowLabel = p.HopLimit, p.TrafficClass, p.FlowLabel
	return a, nil
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
