package verbs

import "fmt"

// transition is the attributes that a change of state needs or allows, besides State itself.
type transition struct {
	need, may [UD + 1]AttrMask // by queue pair type
}

// stateChange is a change of state. Both states may be the same.
type stateChange struct{ from, to State }

// byType returns the masks of RC, UC and UD.
func byType(rc, uc, ud AttrMask) [UD + 1]AttrMask { return [UD + 1]AttrMask{RC: rc, UC: uc, UD: ud} }

// whileConnected is the attributes that can be changed when a pair is, or becomes, ready to send.
var whileConnected = byType(
	AttrCurState|AttrAltPath|AttrAccess|AttrMinRNRTimer|AttrPathMigState,
	AttrCurState|AttrAltPath|AttrAccess|AttrPathMigState,
	AttrCurState|AttrQKey,
)

// transitions is the table of the InfiniBand specification, volume 1, section 11.2.5.2, as Linux implements it. RESET and ERR
// are missing: a pair can change to them from every state, without further attributes.
var transitions = map[stateChange]transition{
	{StateReset, StateInit}: {need: byType(
		AttrPKeyIndex|AttrPort|AttrAccess, AttrPKeyIndex|AttrPort|AttrAccess, AttrPKeyIndex|AttrPort|AttrQKey)},
	{StateInit, StateInit}: {may: byType(
		AttrPKeyIndex|AttrPort|AttrAccess, AttrPKeyIndex|AttrPort|AttrAccess, AttrPKeyIndex|AttrPort|AttrQKey)},
	{StateInit, StateRTR}: {
		need: byType(
			AttrAH|AttrMTU|AttrDestQPN|AttrRQPSN|AttrMaxDestRDAtomic|AttrMinRNRTimer,
			AttrAH|AttrMTU|AttrDestQPN|AttrRQPSN,
			0),
		may: byType(AttrAltPath|AttrAccess|AttrPKeyIndex, AttrAltPath|AttrAccess|AttrPKeyIndex, AttrPKeyIndex|AttrQKey),
	},
	{StateRTR, StateRTS}: {
		need: byType(AttrTimeout|AttrRetryCount|AttrRNRRetry|AttrSQPSN|AttrMaxRDAtomic, AttrSQPSN, AttrSQPSN),
		may:  whileConnected,
	},
	{StateRTS, StateRTS}: {may: whileConnected},
	{StateRTS, StateSQD}: {may: byType(AttrEnSQDAsyncNotify, AttrEnSQDAsyncNotify, AttrEnSQDAsyncNotify)},
	{StateSQD, StateRTS}: {may: whileConnected},
	{StateSQD, StateSQD}: {may: byType(
		AttrPort|AttrAH|AttrTimeout|AttrRetryCount|AttrRNRRetry|AttrMaxRDAtomic|AttrMaxDestRDAtomic|AttrAltPath|AttrAccess|
			AttrPKeyIndex|AttrMinRNRTimer|AttrPathMigState,
		AttrAH|AttrAltPath|AttrAccess|AttrPKeyIndex|AttrPathMigState,
		AttrPKeyIndex|AttrQKey)},
	{StateSQE, StateRTS}: {may: byType(0, AttrCurState|AttrAccess, AttrCurState|AttrQKey)},
}

// forbiddenTransition returns why the attributes cannot be changed, or "" if they can.
func forbiddenTransition(t QPType, from, to State, mask AttrMask) string {
	change, known := transitions[stateChange{from, to}]
	switch {
	case to == StateReset, to == StateErr && from != StateReset:
	case !known:
		return "there is no such transition"
	}
	mask &^= AttrState
	missing, extra := change.need[t]&^mask, mask&^(change.need[t]|change.may[t])
	switch {
	case missing != 0 && extra != 0:
		return fmt.Sprintf("missing %v, and the transition does not allow %v", missing, extra)
	case missing != 0:
		return fmt.Sprintf("missing %v", missing)
	case extra != 0:
		return fmt.Sprintf("the transition does not allow %v", extra)
	}
	return ""
}
