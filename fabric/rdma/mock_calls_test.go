//go:build linux && !static && (amd64 || arm64)

package rdma

import (
	"maps"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/internal/waittest"
)

// mockCalls are the functions of the library that a connection may call, apart from those of the data path, and apart from
// ibv_req_notify_cq: the goroutine that answers for a process that does not poll may call that at any time.
var mockCalls = []string{
	"ibv_query_device", "ibv_query_port", "ibv_query_gid", "_ibv_query_gid_table", "ibv_query_pkey", "ibv_alloc_pd", "ibv_reg_mr",
	"ibv_dereg_mr", "ibv_create_ah", "ibv_destroy_ah", "ibv_create_cq", "ibv_destroy_cq", "ibv_create_qp", "ibv_modify_qp",
	"ibv_query_qp", "ibv_destroy_qp", "ibv_create_srq", "ibv_modify_srq", "ibv_query_srq", "ibv_destroy_srq",
}

// calledBy returns how often f calls each of the functions.
func calledBy(lib *ibvmock.Library, functions []string, f func()) map[string]int {
	before := map[string]uint64{}
	for _, name := range functions {
		before[name] = lib.Calls(name)
	}
	f()
	called := map[string]int{}
	for _, name := range functions {
		if n := lib.Calls(name) - before[name]; n > 0 {
			called[name] = int(n)
		}
	}
	return called
}

// openOverMock opens peers on one device of the mock.
func openOverMock(t *testing.T, lib *ibvmock.Library, profile string, peers int) []*domain {
	t.Helper()
	network := mockNetwork{lib.NewDevice(profile)}
	trs := make([]*Transport, peers)
	for i := range trs {
		trs[i] = &Transport{Network: network}
	}
	return openTransports(t, trs)
}

// TestMockCallsPerConnection: each side of a connection makes five calls of the library. It queries nothing.
func TestMockCallsPerConnection(t *testing.T) {
	lib := ibvmock.Load(t)
	for _, profile := range []string{"mlx5_roce", "irdma"} {
		ds := openOverMock(t, lib, profile, 3)
		want := map[string]int{"ibv_create_qp": 2, "ibv_modify_qp": 6, "ibv_create_ah": 2}
		for _, peer := range []int{1, 2} {
			got := calledBy(lib, mockCalls, func() { connectPeers(t, ds[0], ds[peer]) })
			delete(got, "ibv_reg_mr") // bounce buffers are registered for many peers at a time
			if !maps.Equal(got, want) {
				t.Errorf("%s: a connection to peer %d took %v, want %v", profile, peer, got, want)
			}
		}
	}
}

// widenWindow sends messages until b has granted a the whole window.
func widenWindow(t *testing.T, a, b *domain, window int) {
	t.Helper()
	connectPeers(t, a, b)
	for int(a.eps[b.self].msgs.Out.Grant-a.eps[b.self].msgs.Out.Sent) < window {
		for a.eps[b.self].Send([]byte("message"), nil) == nil {
		}
		pollTimes(t, b, 8)
		pollTimes(t, a, 8)
	}
}

// TestMockCallsPerMessage: a message is posted by one call, at once, since the doorbell is a store. One poll finds all messages,
// and one call posts their slots again.
func TestMockCallsPerMessage(t *testing.T) {
	lib := ibvmock.Load(t)
	const n = 16
	for profile, recv := range map[string]string{"mlx5_roce": "ibv_post_srq_recv", "irdma": "ibv_post_recv"} {
		ds := openOverMock(t, lib, profile, 2)
		a, b := ds[0], ds[1]
		for _, d := range ds {
			d.cm.Responder.Close() // its goroutine polls, first when it starts, which may be at any time
		}
		widenWindow(t, a, b, n)
		data := []string{"ibv_post_send", "ibv_poll_cq", "ibv_post_recv", "ibv_post_srq_recv"}
		var evs [n]fabric.Event
		sent := calledBy(lib, data, func() {
			for range n {
				if err := a.eps[1].Send([]byte("header"), make([]byte, 8)); err != nil {
					t.Fatal(err)
				}
			}
		})
		if want := map[string]int{"ibv_post_send": n}; !maps.Equal(sent, want) {
			t.Errorf("%s: %d messages took %v, want %v", profile, n, sent, want)
		}
		b.clock.FastPolls = 0 // a Poll that handles all completions
		received := calledBy(lib, data, func() {
			if got, err := b.Poll(evs[:]); got != n || err != nil {
				t.Fatalf("%s: a poll finds %d messages of %d: %v", profile, got, n, err)
			}
		})
		if received["ibv_poll_cq"] > 2 || received[recv] != 0 {
			t.Errorf("%s: finding %d messages took %v", profile, n, received)
		}
		b.clock.FastPolls = maxFastPolls // a Poll that only receives
		released := calledBy(lib, data, func() { pollTimes(t, b, 1) })
		if released[recv] != 1 || released["ibv_poll_cq"] != 1 || released["ibv_post_send"] > 1 { // a credit update
			t.Errorf("%s: posting %d slots again took %v", profile, n, released)
		}
	}
}

// TestMockMessageAllocs: a message allocates nothing, neither for the sender nor for the receiver.
func TestMockMessageAllocs(t *testing.T) {
	ds := openOverMock(t, ibvmock.Load(t), "mlx5_roce", 2)
	a, b := ds[0], ds[1]
	widenWindow(t, a, b, 8)
	var evs [16]fabric.Event
	payload := make([]byte, 8)
	const runs = 500
	got := 0
	poll := func() {
		for _, d := range ds {
			n, err := d.Poll(evs[:])
			if err != nil {
				t.Fatal(err)
			}
			got += n
		}
	}
	n := alloctest.Count(runs, func() {
		for err := fabric.ErrAgain; err != nil; err = a.eps[1].Send(payload, payload) {
			if err != fabric.ErrAgain {
				t.Fatal(err)
			}
			poll()
		}
	})
	poll()
	if n != 0 || got < alloctest.Calls(runs) {
		t.Errorf("%v allocations per message, want 0; %d messages arrived", n, got)
	}
}

// TestMockRefusedPost: the library refuses posts although there is room. The messages arrive all the same, each once. After
// EINVAL the connection is made again: the library might refuse for ever, and nothing else would show it.
func TestMockRefusedPost(t *testing.T) {
	lib := ibvmock.Load(t)
	for _, errno := range []syscall.Errno{syscall.EINVAL, syscall.ENOMEM} {
		ds := openOverMock(t, lib, "mlx5_roce", 2)
		a, b := ds[0], ds[1]
		widenWindow(t, a, b, 8)
		got := uint32(0)
		for sent, refused := byte(0), byte(0); sent < 6; {
			if refused == sent {
				lib.Refuse("ibv_post_send", 0, 1, errno)
				refused++
			}
			before := a.cm.closing.Failures()
			if a.eps[1].Send([]byte{sent, 0, 0, 0}, nil) == nil {
				sent++
			} else if errno == syscall.EINVAL && a.eps[1].conn.State == cm.StateEstablished && a.cm.closing.Failures() == before {
				t.Fatalf("%v: the connection stays in use", errno)
			}
			pollTimes(t, a, 1)
			got += numberedMessages(t, b, got)
		}
		waittest.Poll(t, "all messages arrive", func() bool {
			pollTimes(t, a, 1)
			got += numberedMessages(t, b, got)
			return got == 6
		})
	}
}

// TestMockRefusedDatagram: a datagram that the library refuses leaves its slot free, so Close does not wait for it.
func TestMockRefusedDatagram(t *testing.T) {
	lib := ibvmock.Load(t)
	ds := openOverMock(t, lib, "mlx5_roce", 2)
	a := ds[0]
	free := a.cm.Socket.Free()
	lib.Refuse("ibv_post_send", 0, 1, syscall.EINVAL)
	if err := a.eps[1].sendDatagram(&cm.Message{Kind: cm.REJ}); err == nil {
		t.Fatal("a refused datagram was sent")
	}
	if got := a.cm.Socket.Free(); got != free {
		t.Errorf("%d of %d slots are free after a refused datagram", got, free)
	}
}
