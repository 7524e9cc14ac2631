package verbs

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// Attr are the attributes of a queue pair. An [AttrMask] selects some of them.
type Attr struct {
	State, CurState     State
	MTU                 MTU
	PathMigState        uint8
	QKey                uint32
	RQPSN, SQPSN        uint32 // first packet sequence number received and sent
	DestQPN             uint32
	Access              Access
	AH, AltAH           AHAttr
	PKeyIndex, AltPKey  uint16
	EnSQDAsyncNotify    bool
	SQDraining          bool  // Query only
	MaxRDAtomic         uint8 // outstanding READs and atomic operations of this side
	MaxDestRDAtomic     uint8 // outstanding READs and atomic operations of the peer
	MinRNRTimer         uint8 // the peer waits so long if no receive is posted: 0 655 ms, 1 10 µs, 12 640 µs, 31 491 ms
	Port, AltPort       uint8
	Timeout, AltTimeout uint8 // retransmission timeout: 4.096 µs * 2^Timeout; 0 means forever
	RetryCount          uint8 // number of retransmissions, at most 7; with rxe, 7 means forever
	RNRRetry            uint8 // number of retries if the peer has no receive posted; 7 means forever
}

// AttrMask is a set of attributes.
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

// String returns the names of the attributes.
func (m AttrMask) String() string {
	var names []string
	for ; m != 0; m &= m - 1 {
		names = append(names, nameIn(attrNames[:], uint64(bits.TrailingZeros32(uint32(m))), "bit"))
	}
	return strings.Join(names, ", ")
}

// Modify changes attributes of the queue pair, usually its state. It returns [ErrState] for a change that the standard forbids:
// the error names the current state, the requested state, and the attributes that are missing or superfluous. Modify may block
// until the peer's address is resolved. It returns [ErrUnreachable] if it cannot be.
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

// modify is Modify. The caller must hold control.
func (q *QP) modify(op string, a Attr, mask AttrMask) error {
	now, err := q.presentState(mask)
	if err != nil {
		return q.fail(op, err)
	}
	from, to := now, now
	if mask&AttrState != 0 {
		to = a.State
	}
	if mask&AttrCurState != 0 {
		from = a.CurState
	}
	if why := forbiddenTransition(q.cfg.Type, from, to, mask); why != "" {
		return q.refuse(op, ErrState, "cannot change from %v to %v: %s", from, to, why)
	}
	if to == StateReset {
		q.setPostable(to) // nothing is posted while the device drops what is queued
	}
	attr := a.toIB()
	if err := q.ib.Modify(&attr, uint32(mask)); err != nil {
		now = q.stateOrERR(now)
		q.setPostable(now)
		err := q.fail(op, err)
		if now == StateErr && from != StateErr {
			return q.refuse(op, ErrState, "cannot change from %v to %v: the pair has failed", now, to)
		}
		if e := err.(*Error); e.Kind == ErrInvalid {
			e.Detail = fmt.Sprintf("cannot change from %v to %v: the device refuses one of %v", from, to, mask)
		}
		return err
	}
	if mask&AttrState != 0 {
		q.state = to
		q.setPostable(to)
	}
	return nil
}

// presentState returns the state of the pair. Only the device knows it, because a connected pair changes to ERR by itself. But
// while a pair is being connected, the device refuses the next change if it has, so that the state need not be queried.
func (q *QP) presentState(mask AttrMask) (State, error) {
	if mask&AttrState != 0 && q.state <= StateRTR {
		return q.state, nil
	}
	now, err := q.ib.Query(uint32(AttrState))
	return State(now.State), err
}

// stateOrERR returns ERR if the device has changed the state to that. Otherwise it returns the state that was expected.
func (q *QP) stateOrERR(expected State) State {
	if now, err := q.ib.Query(uint32(AttrState)); err == nil && State(now.State) == StateErr {
		return StateErr
	}
	return expected
}

// setPostable sets what may be posted in a state.
func (q *QP) setPostable(s State) {
	q.send.lockState()
	q.recv.lockState()
	defer q.send.mu.Unlock()
	defer q.recv.mu.Unlock()
	if q.send.state.Load() >= sendClosed {
		return
	}
	if s <= StateRTR {
		q.send.state.Store(sendNotReady)
		q.send.doorbellPending = false
	} else if s < StateErr {
		q.send.state.Store(sendReady)
	}
	checks := int32(0)
	if s == StateErr {
		checks = stateChecksAfterFailure
	}
	q.recv.open.Store(s != StateReset)
	q.recv.stateChecks.Store(checks)
}

// Query returns the attributes that the mask selects. The device may return more.
func (q *QP) Query(mask AttrMask) (Attr, error) {
	a, err := q.query(mask)
	if err == nil && mask&AttrState != 0 && a.State == StateErr {
		q.requestFailed()
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

// State queries the state of the queue pair.
func (q *QP) State() (State, error) {
	a, err := q.Query(AttrState)
	return a.State, err
}

// toIB converts the attributes to those of package ib.
func (a *Attr) toIB() ib.QPAttr {
	return ib.QPAttr{
		State: uint8(a.State), CurState: uint8(a.CurState), PathMTU: uint8(a.MTU), PathMigState: a.PathMigState, QKey: a.QKey,
		RQPSN: a.RQPSN & max24, SQPSN: a.SQPSN & max24, DestQPN: a.DestQPN, Access: uint32(a.Access), AH: a.AH.toIB(),
		AltAH:     a.AltAH.toIB(),
		PKeyIndex: a.PKeyIndex, AltPKey: a.AltPKey, EnSQDAsyncNotify: a.EnSQDAsyncNotify, MaxRdAtomic: a.MaxRDAtomic,
		MaxDestRdAtomic: a.MaxDestRDAtomic, MinRNRTimer: a.MinRNRTimer, Port: a.Port, AltPort: a.AltPort, Timeout: a.Timeout,
		AltTimeout: a.AltTimeout, RetryCnt: a.RetryCount, RNRRetry: a.RNRRetry,
	}
}

// attrOf converts attributes of package ib.
func attrOf(a *ib.QPAttr) Attr {
	return Attr{
		State: State(a.State), CurState: State(a.CurState), MTU: MTU(a.PathMTU), PathMigState: a.PathMigState, QKey: a.QKey,
		RQPSN: a.RQPSN, SQPSN: a.SQPSN, DestQPN: a.DestQPN, Access: Access(a.Access), AH: ahAttrOf(&a.AH), AltAH: ahAttrOf(&a.AltAH),
		PKeyIndex: a.PKeyIndex, AltPKey: a.AltPKey, EnSQDAsyncNotify: a.EnSQDAsyncNotify, SQDraining: a.SQDraining,
		MaxRDAtomic: a.MaxRdAtomic, MaxDestRDAtomic: a.MaxDestRdAtomic, MinRNRTimer: a.MinRNRTimer, Port: a.Port, AltPort: a.AltPort,
		Timeout: a.Timeout, AltTimeout: a.AltTimeout, RetryCount: a.RetryCnt, RNRRetry: a.RNRRetry,
	}
}
