package posting

import (
	"testing"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/transfer"
	"github.com/ibrun/ibrun/verbs"
)

// newRail returns a rail whose queue pairs take 64 requests.
func newRail(index int) *Rail {
	r := &Rail{Index: index, Piece: 1 << 10, Entries: 4, MaxInFlight: 1 << 10, SignalAll: 1 << 10}
	r.SetDepth(64)
	return r
}

// newQueue returns a queue pair that no device knows.
func newQueue(r *Rail, qpn uint32, path uint8) *QueuePair {
	return &QueuePair{Rail: r, Info: cm.QP{QPN: qpn, Lane: cm.Lane{Rail: uint8(r.Index), Path: path}}, Epoch: 7,
		requests: make([]Request, fewRequests), Pacer: transfer.NewPacer(r.Piece)}
}

// TestQueuePairRing: requests leave a queue pair in the order in which they were posted, however
// many there are. Work request IDs name those in flight, and none of an earlier connection.
func TestQueuePairRing(t *testing.T) {
	r := newRail(0)
	q := newQueue(r, 1, 0)
	q.head, q.tail = 0xfffffff0, 0xfffffff0 // numbers wrap around
	seq, next := uint32(0), uint32(0)
	for round := range 20 {
		for range round {
			q.push(Request{Kind: Message, Seq: seq}, 0)
			seq++
		}
		if n, ok := q.Lookup(q.nextID()); ok {
			t.Fatalf("request %d was not posted, and is in flight", n)
		}
		if n, ok := q.Lookup(uint64(q.Epoch)<<32 | uint64(q.Oldest())); ok != (q.InFlight() > 0) || n != q.Oldest() {
			t.Fatalf("request %d of %d in flight: %v", n, q.InFlight(), ok)
		}
		if _, ok := q.Lookup(uint64(q.Epoch-1)<<32 | uint64(q.Oldest())); ok {
			t.Fatal("a request of an earlier connection is in flight")
		}
		for range q.InFlight() / 2 {
			if got := q.pop(); got.Seq != next {
				t.Fatalf("request %d leaves as number %d", got.Seq, next)
			}
			next++
		}
		if int(seq-next) != q.InFlight() || r.InFlight() != q.InFlight() {
			t.Fatalf("%d in flight, %d over the rail, want %d", q.InFlight(), r.InFlight(), seq-next)
		}
	}
}

// TestQueuePairSignals: some request in flight always has a completion, and each of so many in a
// row.
func TestQueuePairSignals(t *testing.T) {
	r := newRail(0)
	q := newQueue(r, 1, 0)
	without := 0
	for n := range 3 * r.MaxUnsignaled {
		f := q.signalFlags(false)
		if without++; f&verbs.Signaled != 0 {
			without = 0
		}
		if n == 0 && without != 0 || without >= r.MaxUnsignaled {
			t.Fatalf("request %d: the last %d have no completion", n, without)
		}
		if q.push(Request{}, f); !q.Supervised() {
			t.Fatal("no request in flight has a completion")
		}
	}
	if q.signalFlags(true) != verbs.Signaled {
		t.Error("a completion that is demanded is missing")
	}
}

// TestQueuePairShares: data messages leave room for pieces, and these for control messages. No
// share exceeds the completion queue.
func TestQueuePairShares(t *testing.T) {
	r := newRail(0)
	q := newQueue(r, 1, 0)
	for share, want := range map[Share]int{ShareMessages: 40, ShareTransfers: 56, ShareAll: 64} {
		for q.hasRoom(share) {
			q.push(Request{}, 0)
		}
		if q.InFlight() != want {
			t.Errorf("share %d has %d requests, want %d", share, q.InFlight(), want)
		}
		for q.InFlight() > 0 {
			q.pop()
		}
	}
	r.MaxInFlight = 3
	other := newQueue(r, 2, 1)
	for range 3 {
		other.push(Request{}, 0)
	}
	if q.hasRoom(ShareAll) {
		t.Error("the completion queue has room for a fourth request")
	}
}

// TestSuspect: the longest request up to the first one with a completion was probably lost.
func TestSuspect(t *testing.T) {
	q := newQueue(newRail(0), 1, 0)
	if q.Suspect() != (Request{}) {
		t.Error("a request is suspected, and none is in flight")
	}
	for _, r := range []struct {
		bytes uint32
		f     verbs.Flags
	}{{10, 0}, {40, 0}, {20, verbs.Signaled}, {90, verbs.Signaled}} {
		q.push(Request{Bytes: r.bytes}, r.f)
	}
	if got := q.Suspect(); got.Bytes != 40 {
		t.Errorf("the request of %d bytes is suspected, want that of 40", got.Bytes)
	}
}
