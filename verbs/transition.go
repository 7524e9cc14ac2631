package verbs

import "fmt"

// transition says what a change of state takes, beside State itself.
type transition struct {
	need, may [UD + 1]AttrMask // by type
}

type step struct{ from, to State }

// byType is the masks of RC, UC and UD.
func byType(rc, uc, ud AttrMask) [UD + 1]AttrMask { return [UD + 1]AttrMask{RC: rc, UC: uc, UD: ud} }

// whileConnected may be changed by a pair that is or becomes ready to send.
var whileConnected = byType(
	AttrCurState|AttrAltPath|AttrAccess|AttrMinRNRTimer|AttrPathMigState,
	AttrCurState|AttrAltPath|AttrAccess|AttrPathMigState,
	AttrCurState|AttrQKey,
)

// transitions is the table of the InfiniBand specification, volume 1, section 11.2.5.2, as far as Linux follows it. RESET
// and ERR are missing: they are reached from every state and take nothing.
var transitions = map[step]transition{
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

// forbidden says why attributes cannot be changed in this way, or "".
func forbidden(t QPType, from, to State, mask AttrMask) string {
	step, known := transitions[step{from, to}]
	switch {
	case to == StateReset, to == StateErr && from != StateReset:
	case !known:
		return "there is no such step"
	}
	mask &^= AttrState
	missing, extra := step.need[t]&^mask, mask&^(step.need[t]|step.may[t])
	switch {
	case missing != 0 && extra != 0:
		return fmt.Sprintf("missing %v, and the step does not take %v", missing, extra)
	case missing != 0:
		return fmt.Sprintf("missing %v", missing)
	case extra != 0:
		return fmt.Sprintf("the step does not take %v", extra)
	}
	return ""
}
