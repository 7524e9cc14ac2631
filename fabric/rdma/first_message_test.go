//go:build linux

package rdma

import (
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
)

// TestSimulatedFirstMessageLate: the first message over a connection is found only when the connection is closed, because the
// peer has requested another connection.
func TestSimulatedFirstMessageLate(t *testing.T) {
	_, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
	a, b := ds[0], ds[1]
	mem := make([]byte, 64)
	reg, err := b.Register(mem)
	if err != nil {
		t.Fatal(err)
	}
	far, err := a.Register(mem)
	if err != nil {
		t.Fatal(err)
	}
	for a.eps[1].conn.State != cm.StateEstablished {
		if err := a.eps[1].Send([]byte("message"), nil); err == nil {
			t.Fatal("sent without a connection")
		}
		pollTimes(t, a, 1)
		if b.eps[0].conn.State != cm.StateREPSent {
			pollTimes(t, b, 1)
		}
	}
	e := b.eps[0]
	e.tearDown()
	if err := b.finishTeardowns(); err != nil {
		t.Fatal(err)
	}
	if e.lanes.CanPost || e.lanes.Queues != nil || e.conn.State != cm.StateIdle {
		t.Fatalf("after the connection was closed: %+v", e)
	}
	if _, err := e.Read(mem, reg, far.Remote, 7); err != nil { // there is no queue pair to post it to
		t.Fatal(err)
	}
	var got []fabric.Event
	for range enoughPolls {
		pollTimes(t, a, 1)
		got = append(got, pollTimes(t, b, 1)...)
	}
	if len(got) != 1 || got[0].Token != 7 || got[0].Err != nil {
		t.Errorf("after another connection was made: %+v", got)
	}
}

// TestSimulatedNoSlotForRTU: the side that requested a connection has no free slot when the connection is established, and no
// data to send. It sends the RTU as soon as there is a slot.
func TestSimulatedNoSlotForRTU(t *testing.T) {
	_, ds := openSimulated(t, Settings{Devices: []string{"a"}, Pool: 1}, 2)
	a, b := ds[0], ds[1]
	src, dst := make([]byte, 64), make([]byte, 64)
	far, err1 := b.Register(src)
	near, err2 := a.Register(dst)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	var all []uint32
	for slot, ok := a.poster.Sends.Take(); ok; slot, ok = a.poster.Sends.Take() {
		all = append(all, slot)
	}
	if _, err := a.eps[1].Read(dst, near, far.Remote, 1); err != nil {
		t.Fatal(err)
	}
	var got []fabric.Event
	for range enoughPolls {
		got = append(got, pollTimes(t, a, 1)...)
		pollTimes(t, b, 1)
	}
	if len(got) != 1 || got[0].Token != 1 || b.eps[0].conn.State != cm.StateREPSent {
		t.Fatalf("%+v, state %d", got, b.eps[0].conn.State)
	}
	for _, slot := range all {
		a.poster.Sends.Give(slot)
	}
	for range enoughPolls {
		pollTimes(t, a, 1)
		pollTimes(t, b, 1)
	}
	if err := b.eps[0].Send([]byte("message"), nil); err != nil {
		t.Errorf("state %d: %v", b.eps[0].conn.State, err)
	}
}
