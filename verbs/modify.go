package verbs

import (
	"math/bits"
	"net/netip"
	"strings"

	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// AHAttr is an address vector: where a peer is, and how packets get there.
type AHAttr struct {
	GID          netip.Addr // of the peer; not valid on InfiniBand within a subnet, and the next four are unused then
	SGIDIndex    uint8      // index of our own GID
	FlowLabel    uint32     // 20 bits; other than 0 it spreads the paths through the network
	HopLimit     uint8
	TrafficClass uint8  // DSCP in the upper six bits
	LID          uint16 // of the peer, InfiniBand only
	SL           uint8  // service level: the priority on Ethernet
	PathBits     uint8
	StaticRate   uint8
	Port         uint8
}

// Attr are the attributes of a queue pair. Which of them count is said by an [AttrMask].
type Attr struct {
	State, CurState     State
	MTU                 MTU
	PathMigState        uint8
	QKey                uint32
	RQPSN, SQPSN        uint32 // first packet number received and sent
	DestQPN             uint32
	Access              Access
	AH, AltAH           AHAttr
	PKeyIndex, AltPKey  uint16
	EnSQDAsyncNotify    bool
	SQDraining          bool  // of Query only
	MaxRDAtomic         uint8 // READs and atomics of ours under way at the same time
	MaxDestRDAtomic     uint8 // the same of the peer
	MinRNRTimer         uint8 // how long the peer waits when no receive is posted: 0 655 ms, 1 10 µs, 12 640 µs, 31 491 ms
	Port, AltPort       uint8
	Timeout, AltTimeout uint8 // how long to wait for an answer: 4.096 µs * 2^Timeout, 0 for ever
	RetryCount          uint8 // how often to try again, up to 7, which with rxe is for ever
	RNRRetry            uint8 // the same when no receive is posted; 7 is for ever
}

// AttrMask says which attributes count.
type AttrMask uint32

// Attributes of a queue pair.
const (
	AttrState            = AttrMask(uverbs.QPAttrState)
	AttrCurState         = AttrMask(uverbs.QPAttrCurState)
	AttrEnSQDAsyncNotify = AttrMask(uverbs.QPAttrEnSQDAsyncNotify)
	AttrAccess           = AttrMask(uverbs.QPAttrAccessFlags)
	AttrPKeyIndex        = AttrMask(uverbs.QPAttrPKeyIndex)
	AttrPort             = AttrMask(uverbs.QPAttrPort)
	AttrQKey             = AttrMask(uverbs.QPAttrQKey)
	AttrAH               = AttrMask(uverbs.QPAttrAV)
	AttrMTU              = AttrMask(uverbs.QPAttrPathMTU)
	AttrTimeout          = AttrMask(uverbs.QPAttrTimeout)
	AttrRetryCount       = AttrMask(uverbs.QPAttrRetryCnt)
	AttrRNRRetry         = AttrMask(uverbs.QPAttrRNRRetry)
	AttrRQPSN            = AttrMask(uverbs.QPAttrRQPSN)
	AttrMaxRDAtomic      = AttrMask(uverbs.QPAttrMaxQPRdAtomic)
	AttrAltPath          = AttrMask(uverbs.QPAttrAltPath)
	AttrMinRNRTimer      = AttrMask(uverbs.QPAttrMinRNRTimer)
	AttrSQPSN            = AttrMask(uverbs.QPAttrSQPSN)
	AttrMaxDestRDAtomic  = AttrMask(uverbs.QPAttrMaxDestRdAtomic)
	AttrPathMigState     = AttrMask(uverbs.QPAttrPathMigState)
	AttrCap              = AttrMask(uverbs.QPAttrCap)
	AttrDestQPN          = AttrMask(uverbs.QPAttrDestQPN)
)

var attrNames = [...]string{"State", "CurState", "EnSQDAsyncNotify", "Access", "PKeyIndex", "Port", "QKey", "AH",
	"MTU", "Timeout", "RetryCount", "RNRRetry", "RQPSN", "MaxRDAtomic", "AltPath", "MinRNRTimer", "SQPSN",
	"MaxDestRDAtomic", "PathMigState", "Cap", "DestQPN"}

// String names the attributes.
func (m AttrMask) String() string {
	var names []string
	for ; m != 0; m &= m - 1 {
		names = append(names, nameIn(attrNames[:], uint64(bits.TrailingZeros32(uint32(m))), "bit"))
	}
	return strings.Join(names, ", ")
}

// Modify changes attributes of the queue pair, its state above all. A change that the standard forbids is [ErrState]: the
// error names the state that the pair is in, the wanted one, and the attributes that are missing or superfluous. It may
// wait until the peer's address is resolved; [ErrUnreachable] if it cannot be.
func (q *QP) Modify(a Attr, mask AttrMask) error {
	const op = "modify"
	if err := q.enter(op); err != nil {
		return err
	}
	defer q.leave()
	q.control.Lock()
	defer q.control.Unlock()
	return q.modify(op, a, mask)
}

// modify is Modify for a caller that holds control.
func (q *QP) modify(op string, a Attr, mask AttrMask) error {
	// The state is the device's to know: it becomes ERR without our doing.
	now, err := q.ib.Query(uint32(AttrState))
	if err != nil {
		return q.fail(op, err)
	}
	from, to := State(now.State), State(now.State)
	if mask&AttrState != 0 {
		to = a.State
	}
	if mask&AttrCurState != 0 {
		from = a.CurState
	}
	if why := forbidden(q.cfg.Type, from, to, mask); why != "" {
		return q.refuse(op, ErrState, "it is in %v, and %v is wanted: %s", from, to, why)
	}
	if to == StateReset {
		q.setReady(to) // nothing is posted while the device forgets what is queued
	}
	attr := a.attr()
	if err := q.ib.Modify(&attr, uint32(mask)); err != nil {
		q.setReady(State(now.State))
		err := q.fail(op, err)
		if e := err.(*Error); e.Kind == ErrInvalid {
			e.Detail = detail("it is in %v, and %v is wanted; the device refuses one of %v", from, to, mask)
		}
		return err
	}
	if mask&AttrState != 0 {
		q.setReady(to)
	}
	return nil
}

// setReady notes what may be posted in a state.
func (q *QP) setReady(s State) {
	q.send.mu.Lock()
	q.recv.mu.Lock()
	defer q.send.mu.Unlock()
	defer q.recv.mu.Unlock()
	if q.send.state >= sendClosed {
		return
	}
	if s <= StateRTR {
		q.send.state, q.send.unrung = sendNotReady, false
	} else if s < StateErr || q.send.state == sendOpen {
		q.send.state = sendOpen
	}
	q.recv.open, q.recv.doubt = s != StateReset, 0
	if s == StateErr {
		q.recv.doubt = looks
	}
}

// Query asks for the attributes that the mask names. The device may tell more.
func (q *QP) Query(mask AttrMask) (Attr, error) {
	a, err := q.query(mask)
	if err == nil && mask&AttrState != 0 && a.State == StateErr {
		q.doubt()
	}
	return a, err
}

func (q *QP) query(mask AttrMask) (Attr, error) {
	const op = "query"
	if err := q.enter(op); err != nil {
		return Attr{}, err
	}
	defer q.leave()
	a, err := q.ib.Query(uint32(mask))
	if err != nil {
		return Attr{}, q.fail(op, err)
	}
	return attrOf(&a), nil
}

// State asks the device in which state the queue pair is.
func (q *QP) State() (State, error) {
	a, err := q.Query(AttrState)
	return a.State, err
}

func (a *Attr) attr() ib.QPAttr {
	return ib.QPAttr{
		State: uint8(a.State), CurState: uint8(a.CurState), PathMTU: uint8(a.MTU), PathMigState: a.PathMigState, QKey: a.QKey,
		RQPSN: a.RQPSN & most24, SQPSN: a.SQPSN & most24, DestQPN: a.DestQPN, Access: uint32(a.Access), AH: a.AH.attr(),
		AltAH:     a.AltAH.attr(),
		PKeyIndex: a.PKeyIndex, AltPKey: a.AltPKey, EnSQDAsyncNotify: a.EnSQDAsyncNotify, MaxRdAtomic: a.MaxRDAtomic,
		MaxDestRdAtomic: a.MaxDestRDAtomic, MinRNRTimer: a.MinRNRTimer, Port: a.Port, AltPort: a.AltPort, Timeout: a.Timeout,
		AltTimeout: a.AltTimeout, RetryCnt: a.RetryCount, RNRRetry: a.RNRRetry,
	}
}

func attrOf(a *ib.QPAttr) Attr {
	return Attr{
		State: State(a.State), CurState: State(a.CurState), MTU: MTU(a.PathMTU), PathMigState: a.PathMigState, QKey: a.QKey,
		RQPSN: a.RQPSN, SQPSN: a.SQPSN, DestQPN: a.DestQPN, Access: Access(a.Access), AH: ahAttrOf(&a.AH), AltAH: ahAttrOf(&a.AltAH),
		PKeyIndex: a.PKeyIndex, AltPKey: a.AltPKey, EnSQDAsyncNotify: a.EnSQDAsyncNotify, SQDraining: a.SQDraining,
		MaxRDAtomic: a.MaxRdAtomic, MaxDestRDAtomic: a.MaxDestRdAtomic, MinRNRTimer: a.MinRNRTimer, Port: a.Port, AltPort: a.AltPort,
		Timeout: a.Timeout, AltTimeout: a.AltTimeout, RetryCount: a.RetryCnt, RNRRetry: a.RNRRetry,
	}
}

func (a *AHAttr) attr() ib.AHAttr {
	return ib.AHAttr{DGID: gidBytes(a.GID), FlowLabel: a.FlowLabel, SGIDIndex: a.SGIDIndex, HopLimit: a.HopLimit,
		TrafficClass: a.TrafficClass, Global: a.GID.IsValid(), DLID: a.LID, SL: a.SL, SrcPathBits: a.PathBits,
		StaticRate: a.StaticRate, Port: a.Port}
}

func ahAttrOf(a *ib.AHAttr) AHAttr {
	return AHAttr{GID: gidAddr(a.DGID), FlowLabel: a.FlowLabel, SGIDIndex: a.SGIDIndex, HopLimit: a.HopLimit,
		TrafficClass: a.TrafficClass, LID: a.DLID, SL: a.SL, PathBits: a.SrcPathBits, StaticRate: a.StaticRate, Port: a.Port}
}
