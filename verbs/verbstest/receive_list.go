package verbstest

import (
	"testing"

	"github.com/ibrun/ibrun/verbs"
)

// checkReceiveLists posts lists of receives to queues of a queue pair and of an SRQ. Messages fill them in order. What does not
// fit is refused, and the rest of the list is queued.
func checkReceiveLists(t *testing.T, open Open) {
	r := newFixture(t, open)
	_, mr := r.region(bufferSize, 1)
	a, b := r.pair(verbs.QPConfig{MaxRecv: 40})
	r.fillByLists(a, b, mr, queueID{b.Num(), true}, b.RecvList)
	if !r.hasSRQ() {
		return
	}
	srq := must(r.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 40}))(t)
	a, b = r.newEndpoint(verbs.QPConfig{}), r.newEndpoint(verbs.QPConfig{SRQ: srq})
	a.connect(b, verbs.DefaultParams())
	b.connect(a, verbs.DefaultParams())
	r.fillByLists(a, b, mr, queueID{}, srq.RecvList)
}

// fillByLists fills a receive queue by lists of 17 receives, and sends a message into each. queue is that of a pair, or zero.
func (r *fixture) fillByLists(a, b *endpoint, mr *verbs.MR, queue queueID, post func([]verbs.Receive) (int, error)) {
	r.t.Helper()
	if n, err := post(nil); n != 0 || err != nil {
		r.t.Fatalf("an empty list: %d, %v", n, err)
	}
	var ids []uint64
	for n := 17; n == 17; {
		list := make([]verbs.Receive, 17)
		for i := range list {
			list[i] = verbs.Receive{ID: r.tracker.nextID(), SGE: mr.SGE(64*len(ids)+64*i, 64)}
		}
		var err error
		if n, err = post(list); n < len(list) {
			r.checkError(err, verbs.ErrFull, "a list that does not fit")
		} else if err != nil {
			r.t.Fatal(err)
		}
		for _, w := range list[:n] {
			r.tracker.add(pendingRequest{id: w.ID, queue: queue, op: verbs.WCRecv, shared: queue == queueID{}})
			ids = append(ids, w.ID)
		}
		if len(ids) > bufferSize/64-17 {
			r.t.Fatalf("a queue of 40 receives takes %d", len(ids))
		}
	}
	if len(ids) < 40 {
		r.t.Errorf("the queue takes %d receives, want 40", len(ids))
	}
	for i, id := range ids {
		r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(a.mr, 0, i%60)}))
		if wc := r.awaitSuccess(id); wc.QPN != b.Num() || int(wc.Len) != i%60 {
			r.t.Fatalf("message %d: %+v", i, wc)
		}
	}
	r.drain()
}
