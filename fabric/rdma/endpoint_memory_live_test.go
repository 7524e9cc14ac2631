//go:build linux

package rdma

import (
	"reflect"
	"testing"

	"github.com/ibrun/ibrun/fabric/rdma/internal/datagrams"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
)

// TestLiveMemory: a connected peer uses at most 16 KiB in addition to its queue pair, and any other peer less than 100 bytes.
func TestLiveMemory(t *testing.T) {
	w := openLocalPeers(t, Settings{})
	d := w.d[0]
	size := func(p any) int { return int(reflect.TypeOf(p).Elem().Size()) } // size of what p points to
	if per := size(&d.eps[0]); per >= 100 {
		t.Errorf("a peer that is not connected uses %d bytes", per)
	}
	w.send(0, 0)
	w.until("the message", func() bool { return w.got[1] == 1 })
	e := w.d[0].eps[1]
	bytes := size(e) + size(e.lanes.Queues[0]) + len(e.addr.Rails)*size(&e.addr.Rails[0]) + size((*datagrams.Destination)(nil))
	requests := reflect.ValueOf(e.lanes.Queues[0]).Elem().FieldByName("requests").Len()
	const key = 16                                                  // bytes of the key of a queue pair
	bytes += requests*size(&posting.Request{}) + 4*size(&e) + 2*key // the latter are in tables of the domain
	bytes += d.recvs.Reserved * d.settings.Slot
	if d.recvs.Reserved != messages.InitialWindow+1 || bytes > 16<<10 {
		t.Errorf("a connected peer has %d slots and uses %d bytes", d.recvs.Reserved, bytes)
	}
	t.Logf("%d bytes, of which %d are slots", bytes, d.recvs.Reserved*d.settings.Slot)
}
