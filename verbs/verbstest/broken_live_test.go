package verbstest_test

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/opener"
	"github.com/ibrun/ibrun/verbs/internal/rxe"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// every returns a Poll that calls f for each completion.
func every(f func(c *cq, wc *ib.WC)) func(*cq, []ib.WC) (int, error) {
	return func(c *cq, wcs []ib.WC) (int, error) {
		n, err := c.CQ.Poll(wcs)
		for i := range wcs[:n] {
			c.count++
			f(c, &wcs[i])
		}
		return n, err
	}
}

// ops returns a Post that calls f for requests with this opcode.
func ops(op uverbs.WROpcode, f func(wr *ib.SendWR)) func(*qp, *ib.SendWR) error {
	return func(q *qp, wr *ib.SendWR) error {
		w := *wr
		if w.Opcode == uint32(op) {
			w.SGE = slices.Clone(w.SGE)
			f(&w)
		}
		return q.send(&w)
	}
}

// shorten removes the last byte of a request.
func shorten(wr *ib.SendWR) {
	if n := len(wr.SGE); n > 0 {
		wr.SGE[n-1].Len--
	}
}

// shift moves the remote address by one byte.
func shift(wr *ib.SendWR) { wr.Remote++ }

// hideStatus returns a Poll that replaces a status by success.
func hideStatus(status uverbs.WCStatus) func(*cq, []ib.WC) (int, error) {
	return every(func(_ *cq, wc *ib.WC) {
		if wc.Status == uint32(status) {
			wc.Status = uint32(uverbs.WCSuccess)
		}
	})
}

// dropEvents returns a ReadEvents that drops the events of a type.
func dropEvents(t uverbs.EventType) func(*device, []byte) (int, error) {
	return func(c *device, b []byte) (int, error) {
		for {
			n, err := c.read(b)
			if err != nil || n < 16 || binary.NativeEndian.Uint32(b[8:]) != uint32(t) {
				return n, err
			}
		}
	}
}

var (
	leaked        []int
	inlineGranted uint32 = 128 // twice what the rule SendInline asks for first
)

var faults = map[string]fault{
	// Completions.
	"Loses a completion": {rule: "Batch", poll: func(c *cq, wcs []ib.WC) (int, error) {
		n, err := c.CQ.Poll(wcs)
		if c.count += n; n > 0 && c.count > 10 {
			c.count, n = 0, n-1
		}
		return n, err
	}},
	"Duplicates a completion": {rule: "Traffic", poll: func(c *cq, wcs []ib.WC) (int, error) {
		if len(c.kept) > 0 {
			wcs[0], c.kept = c.kept[0], nil
			return 1, nil
		}
		n, err := c.CQ.Poll(wcs)
		if c.count += n; n > 0 && c.count > 10 {
			c.count, c.kept = -1<<30, []ib.WC{wcs[0]}
		}
		return n, err
	}},
	"Swaps completions": {rule: "Batch", poll: func(c *cq, wcs []ib.WC) (int, error) {
		n, err := c.CQ.Poll(wcs)
		if n > 1 {
			wcs[0], wcs[1] = wcs[1], wcs[0]
		}
		return n, err
	}},
	"Truncates request IDs":    {rule: "SendLengths", poll: every(func(_ *cq, wc *ib.WC) { wc.ID &= 1<<32 - 1 })},
	"Wrong queue pair":         {rule: "SharedReceives", poll: every(func(_ *cq, wc *ib.WC) { wc.QPN ^= 1 })},
	"Wrong opcode":             {rule: "Read", poll: every(func(_ *cq, wc *ib.WC) { wc.Opcode = uint32(uverbs.WCRDMAWrite) })},
	"No length":                {rule: "SendLengths", poll: every(func(_ *cq, wc *ib.WC) { wc.Len = 0 })},
	"No sender":                {rule: "Datagrams", poll: every(func(_ *cq, wc *ib.WC) { wc.SrcQP = 0 })},
	"Reorders immediate bytes": {rule: "SendImmediate", poll: every(func(_ *cq, wc *ib.WC) { wc.Imm = wc.Imm<<24 | wc.Imm>>8 })},
	"Hides flags":              {rule: "Invalidate", poll: every(func(_ *cq, wc *ib.WC) { wc.Flags = 0 })},
	"Hides access errors":      {rule: "StatusRemoteAccess", poll: hideStatus(uverbs.WCRemAccessErr)},
	"Hides flushes":            {rule: "Flush", poll: hideStatus(uverbs.WCWRFlushErr)},
	"Hides retries":            {rule: "StatusRetry", poll: hideStatus(uverbs.WCRetryExcErr)},
	"Hides missing receives": {rule: "StatusRNR",
		poll: hideStatus(uverbs.WCRNRRetryExcErr)},
	"Reports all errors as flushes": {rule: "StatusLocal", poll: every(func(_ *cq, wc *ib.WC) {
		if wc.Status != 0 {
			wc.Status = uint32(uverbs.WCWRFlushErr)
		}
	})},
	"Drops flushes": {rule: "TrafficFails", poll: func(c *cq, wcs []ib.WC) (int, error) {
		n, err := c.CQ.Poll(wcs)
		kept := slices.DeleteFunc(wcs[:n], func(wc ib.WC) bool { return wc.Status == uint32(uverbs.WCWRFlushErr) })
		return len(kept), err
	}},
	"Signals everything": {rule: "Unsignaled", post: func(q *qp, wr *ib.SendWR) error {
		w := *wr
		w.Flags |= uint32(uverbs.SendSignaled)
		return q.send(&w)
	}},

	// Requests.
	"Sends too little":        {rule: "SendLengths", post: ops(uverbs.WRSend, shorten)},
	"Writes too little":       {rule: "Write", post: ops(uverbs.WRRDMAWrite, shorten)},
	"Writes to the next byte": {rule: "Write", post: ops(uverbs.WRRDMAWrite, shift)},
	"Reads the next byte":     {rule: "Read", post: ops(uverbs.WRRDMARead, shift)},
	"Gathers out of order":    {rule: "ScatterGather", post: ops(uverbs.WRSend, func(wr *ib.SendWR) { slices.Reverse(wr.SGE) })},
	"Adds one too many":       {rule: "FetchAdd", post: ops(uverbs.WRAtomicFetchAndAdd, func(wr *ib.SendWR) { wr.Compare++ })},
	"Always swaps": {rule: "CompareSwap", post: ops(uverbs.WRAtomicCmpAndSwp, func(wr *ib.SendWR) {
		wr.Compare = 0x1112131415161718 // the value in memory
	})},
	"Writes without immediate": {rule: "WriteImmediate", post: ops(uverbs.WRRDMAWriteWithImm, func(wr *ib.SendWR) {
		wr.Opcode = uint32(uverbs.WRRDMAWrite)
	})},
	"Does not invalidate": {rule: "Invalidate", post: ops(uverbs.WRSendWithInv, func(wr *ib.SendWR) {
		wr.Opcode = uint32(uverbs.WRSend)
	})},
	"Sends inline late": {rule: "SendInline", post: func(q *qp, wr *ib.SendWR) error {
		w := *wr
		if w.Inline = slices.Clone(w.Inline); len(w.Inline) > 0 {
			w.Inline[0]++
		}
		return q.send(&w)
	}},
	"All sends solicited": {rule: "Solicited", post: func(q *qp, wr *ib.SendWR) error {
		w := *wr
		w.Flags |= uint32(uverbs.SendSolicited)
		return q.send(&w)
	}},
	"Drops requests if full": {rule: "QueueFull", post: func(q *qp, wr *ib.SendWR) error {
		if err := q.send(wr); err != ib.ErrFull {
			return err
		}
		return nil
	}},
	"Is full too soon": {rule: "QueueFull", post: func(q *qp, wr *ib.SendWR) error {
		if q.count++; q.count%5 == 0 {
			return ib.ErrFull
		}
		return q.send(wr)
	}},
	"Sends a refused request": {rule: "Batch", post: func(q *qp, wr *ib.SendWR) error {
		err := q.send(wr)
		if q.count++; q.count == 50 {
			err = ib.ErrFull
		}
		return err
	}},
	"Rings no doorbell": {rule: "Batch", ring: func(q *qp) error {
		if q.count++; q.count > 1 {
			return nil
		}
		return q.QP.Ring()
	}},
	"Loses receives": {rule: "Batch", recv: func(q *qp, id uint64, sge []ib.SGE) error {
		if q.count++; q.count == 7 {
			return nil
		}
		return q.QP.Recv(id, sge)
	}},
	"Loses shared receives": {rule: "SharedReceives", shared: func(s *srq, id uint64, sge []ib.SGE) error {
		return s.SRQ.Recv(id, sge[:1])
	}},
	"Equal receive IDs": {rule: "Traffic", recv: func(q *qp, _ uint64, sge []ib.SGE) error { return q.QP.Recv(1, sge) }},

	// Control.
	"Opens memory to all": {rule: "StatusRemoteAccess", region: func(p *pd, addr, length, iova uint64, _ uint32) (ib.MR, error) {
		const all = uverbs.AccessLocalWrite | uverbs.AccessRemoteWrite | uverbs.AccessRemoteRead | uverbs.AccessRemoteAtomic
		return p.PD.RegMR(addr, length, iova, uint32(all))
	}},
	"Ignores the I/O address": {rule: "Regions", region: func(p *pd, addr, length, _ uint64, access uint32) (ib.MR, error) {
		return p.PD.RegMR(addr, length, addr, access)
	}},
	"Does not change regions": {rule: "Reregister", rereg: func() error { return nil }},
	"Keeps a window's key":    {rule: "WindowType1", bind: func(*mw) uint32 { return 1 }},
	"Never requests events":   {rule: "Sleep", notify: func(*cq, bool) error { return nil }},
	"Requests all events":     {rule: "Solicited", notify: func(c *cq, _ bool) error { return c.CQ.Notify(false) }},
	"Hides overruns":          {rule: "Overrun", events: dropEvents(uverbs.EventCQErr)},
	"Hides limits":            {rule: "SharedLimit", events: dropEvents(uverbs.EventSRQLimitReached)},
	"Does not enter the error state": {rule: "Flush", modify: func(q *qp, a *ib.QPAttr, mask uint32) error {
		if a.State == uint8(uverbs.QPSErr) {
			return nil
		}
		return q.QP.Modify(a, mask)
	}},
	"Does not flush late receives": {rule: "LateReceives", modify: func(q *qp, a *ib.QPAttr, mask uint32) error {
		if a.State == uint8(uverbs.QPSErr) { // in this rule only package verbs requests this state
			return nil
		}
		return q.QP.Modify(a, mask)
	}},
	"Retries without limit": {rule: "StatusRetry", modify: func(q *qp, a *ib.QPAttr, mask uint32) error {
		b := *a
		b.RetryCnt = 7
		return q.QP.Modify(&b, mask)
	}},
	"Does not attach": {rule: "Multicast", attach: func(*qp) error { return nil }},
	"Ignores attributes": {rule: "Modify", modify: func(q *qp, a *ib.QPAttr, mask uint32) error {
		b := *a
		b.Timeout, b.RetryCnt = 0, 0
		return q.QP.Modify(&b, mask)
	}},
	"Reports wrong states": {rule: "ModifyMisuse", query: func(a *ib.QPAttr) { a.State = uint8(uverbs.QPSInit) }},
	"Has no limits":        {rule: "Query", attr: func(a *ib.DeviceAttr) { a.MaxMRSize = 0 }},
	"Hides the reason": {rule: "CreateMisuse", region: func(p *pd, addr, length, iova uint64, access uint32) (ib.MR, error) {
		m, err := p.PD.RegMR(addr, length, iova, access)
		if err != nil {
			err = errors.New("it did not work")
		}
		return m, err
	}},
	"Takes less inline": {rule: "SendInline", caps: func(c *ib.Cap) { // each queue pair half as much as the one before
		inlineGranted /= 2
		c.Inline = min(c.Inline, inlineGranted)
	}},
	"Fails when it closes": {rule: "CloseOrder", closeQP: func() error { return syscall.EPROTO }},
	"Keeps goroutines": {rule: "Query", open: func() error {
		go func() { select {} }()
		return nil
	}},
	"Keeps files": {rule: "Query", open: func() error {
		var fds [2]int
		err := syscall.Pipe(fds[:])
		leaked = append(leaked, fds[:]...)
		return err
	}},
}

// The suite detects every fault of a provider. Each fault runs in its own process, because a failed test makes its process fail.
// Only the rule that must fail runs there; TestLiveUnbroken checks that all rules pass without a fault.
func TestLiveBroken(t *testing.T) {
	const variable = "VERBSTEST_FAULT"
	name := live.Device(t)
	if what, ok := os.LookupEnv(variable); ok {
		f := faults[what]
		verbstest.Run(t, func(tb testing.TB) *verbs.Context { return openFaulty(tb, name, &f) })
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for what, f := range faults {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			// If the fault makes the rule hang, the timeout of the rule ends it before this limit.
			cmd := exec.Command(exe, "-test.run=^TestLiveBroken$/^"+f.rule+"$", "-test.timeout=20s", "-test.v")
			cmd.Env = append(os.Environ(), variable+"="+what)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				t.Fatalf("%s passed in spite of the fault: %v\n%s", f.rule, err, out)
			}
			if !strings.Contains(string(out), "--- FAIL: TestLiveBroken/"+f.rule) {
				t.Fatalf("%s did not report a failure: %v\n%s", f.rule, err, out)
			}
		})
	}
}

// openFaulty opens a device through the rxe provider with a fault.
func openFaulty(tb testing.TB, name string, f *fault) *verbs.Context {
	tb.Helper()
	devices, err := hw.LocalRDMA()
	if err != nil {
		tb.Fatal(err)
	}
	for _, d := range devices {
		if d.Name != name {
			continue
		}
		ctx, err := opener.Open(faulty{rxe.New(), f}, d)
		if err != nil {
			tb.Fatal(err)
		}
		return ctx
	}
	tb.Fatalf("no device %s", name)
	return nil
}

// Without a fault the wrapper changes nothing.
func TestLiveUnbroken(t *testing.T) {
	name := live.Device(t)
	verbstest.Run(t, func(tb testing.TB) *verbs.Context { return openFaulty(tb, name, new(fault)) })
}
