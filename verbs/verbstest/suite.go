package verbstest

import (
	"bytes"
	"testing"

	"github.com/ibrun/ibrun/internal/leakcheck"
	"github.com/ibrun/ibrun/verbs"
)

// Open opens the device under test. It is called at least once for each rule, by the goroutine of its test, and fails the
// test if it cannot. The suite closes the context.
type Open func(tb testing.TB) *verbs.Context

// rule is one subtest.
type rule struct {
	name  string
	check func(t *testing.T, open Open)
}

// Run checks that a provider follows all rules of package verbs.
func Run(t *testing.T, open Open) {
	warmUp(t, open)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			before := leakcheck.Take(t, isDevice)
			t.Cleanup(func() { before.Compare(t) }) // runs after all cleanups of the rule
			r.check(t, open)
		})
	}
}

// isDevice reports whether a line of /proc/self/maps is a mapping of a device.
func isDevice(line []byte) bool { return bytes.Contains(line, []byte("/dev/infiniband/")) }

// warmUp opens the device once. This loads libraries and makes the runtime open its own descriptors before the leak check counts.
func warmUp(t *testing.T, open Open) {
	if err := open(t).Close(); err != nil {
		t.Fatalf("close the device: %v", err)
	}
}

var rules = []rule{
	{"Query", checkQuery},
	{"SendLengths", checkSendLengths},
	{"SendImmediate", checkSendImmediate},
	{"SendInline", checkSendInline},
	{"ScatterGather", checkScatterGather},
	{"Write", checkWrite},
	{"WriteImmediate", checkWriteImmediate},
	{"Read", checkRead},
	{"CompareSwap", checkCompareSwap},
	{"FetchAdd", checkFetchAdd},
	{"Fence", checkFence},
	{"Unsignaled", checkUnsignaled},
	{"Batch", checkBatch},
	{"Datagrams", checkDatagrams},
	{"DatagramMisuse", checkDatagramMisuse},
	{"Multicast", checkMulticast},
	{"Unreliable", checkUnreliable},
	{"ReceiveLists", checkReceiveLists},
	{"SharedReceives", checkShared},
	{"SharedLimit", checkSharedLimit},
	{"SharedMisuse", checkSharedMisuse},
	{"Regions", checkRegions},
	{"Reregister", checkReregister},
	{"WindowType1", checkWindowType1},
	{"WindowType2", checkWindowType2},
	{"Invalidate", checkInvalidate},
	{"Solicited", checkSolicited},
	{"Sleep", checkSleep},
	{"SleepMany", checkSleepMany},
	{"CloseWakes", checkCloseWakes},
	{"StatusLength", checkStatusLength},
	{"StatusLocal", checkStatusLocal},
	{"StatusRemoteAccess", checkStatusRemoteAccess},
	{"StatusRemoteOperation", checkStatusRemoteOperation},
	{"StatusRetry", checkStatusRetry},
	{"StatusRNR", checkStatusRNR},
	{"StatusBind", checkStatusBind},
	{"Flush", checkFlush},
	{"LateReceives", checkLateReceives},
	{"Overrun", checkOverrun},
	{"Modify", checkModify},
	{"ModifyMisuse", checkModifyMisuse},
	{"Reset", checkReset},
	{"PostState", checkPostState},
	{"PostMisuse", checkPostMisuse},
	{"QueueFull", checkQueueFull},
	{"ConnectMisuse", checkConnectMisuse},
	{"CreateMisuse", checkCreateMisuse},
	{"CloseOrder", checkCloseOrder},
	{"Foreign", checkForeign},
	{"Traffic", checkTraffic},
	{"Serialized", checkSerialized},
	{"TrafficFails", checkTrafficFails},
	{"TrafficCloses", checkTrafficCloses},
	{"Threads", checkThreads},
}
