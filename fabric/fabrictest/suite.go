package fabrictest

import (
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// Peers makes the transports of n peers that can reach each other, the one of peer i at index i. It is called once for
// each set of peers that the suite needs; it registers what must be undone with tb.Cleanup.
type Peers func(tb testing.TB, n int) []fabric.Transport

// rule is one subtest. It opens fresh peers with newWorld.
type rule struct {
	name  string
	check func(t *testing.T, peers Peers)
}

// Run checks that a transport keeps all rules of package fabric and that its hot calls allocate nothing. Each subtest
// also checks that no descriptor, mapping or goroutine is leaked.
func Run(t *testing.T, peers Peers) {
	Rules(t, peers)
	t.Run("Allocs", func(t *testing.T) { checkAllocs(t, peers) })
}

// Rules is Run without the allocation table, for a transport with faults injected by package hook.
func Rules(t *testing.T, peers Peers) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) { r.check(t, peers) })
	}
}

var rules = []rule{
	{"Open", checkOpen},
	{"Connect", checkConnect},
	{"ConnectOneSide", checkOneSide},
	{"SendLengths", checkLengths},
	{"SendCopies", checkCopies},
	{"SendTooLong", checkTooLong},
	{"SendWindow", checkWindow},
	{"SendSelf", checkSelf},
	{"SendFrom", checkGather},
	{"SendFromRandom", checkGatherRandom},
	{"SendFromSelf", checkGatherSelf},
	{"SendFromDown", checkGatherDown},
	{"PollDataValid", checkDataValid},
	{"PollSlices", checkSlices},
	{"Flood", checkFlood},
	{"AllToAll", checkAllToAll},
	{"TransferSizes", checkTransferSizes},
	{"TransferRange", checkTransferRange},
	{"TransferKeys", checkTransferKeys},
	{"TransferConcurrent", checkTransferConcurrent},
	{"TransferRegions", checkRegions},
	{"TransferScatter", checkScatter},
	{"TransferScatterRange", checkScatterRange},
	{"TransferPush", checkPush},
	{"SendLater", checkDefer},
	{"DownDomain", checkDomainCloses},
	{"DownEndpoint", checkEndpointCloses},
	{"DownOwn", checkOwnClose},
	{"DownBeforeConnect", checkConnectClosed},
	{"DownKilled", checkConnectKilled},
	{"SleepIdle", checkIdle},
	{"SleepStream", checkSleepStream},
	{"SleepPingPong", checkSleepPingPong},
	{"SleepWindow", checkSleepWindow},
	{"SleepDown", checkSleepDown},
	{"ShareSegment", checkSegment},
	{"ShareSleep", checkSegmentSleep},
	{"ShareMisuse", checkSegmentMisuse},
	{"ShareWake", checkWake},
	{"CooperativeWords", checkWords},
}
