//go:build linux

package rdma

import (
	"crypto/rand"
	"errors"
	"testing"
)

// TestLiveTrafficClass: every packet of a domain, also those that connect, has the traffic class that is set: in the header of
// IPv4 and of IPv6. The other attributes do not prevent connections. TestLiveAddresses shows that the class is 0 by default.
func TestLiveTrafficClass(t *testing.T) {
	for _, c := range []struct {
		name, addr0, addr1 string
		env                map[string]string
		class              byte
	}{
		{"IPv4", "10.98.0.1/24", "10.98.0.2/24", map[string]string{"IBRUN_RDMA_TRAFFIC_CLASS": "106"}, 26<<2 | 2},
		{"IPv6", "fd00:98::1/64", "fd00:98::2/64", map[string]string{"IBRUN_RDMA_TRAFFIC_CLASS": "106", "IBRUN_RDMA_SL": "3",
			"IBRUN_RDMA_MTU": "512", "IBRUN_RDMA_TIMEOUT": "16", "IBRUN_RDMA_RETRIES": "6", "IBRUN_RDMA_RNR_RETRIES": "6",
			"IBRUN_RDMA_PKEY": "0xffff", "IBRUN_RDMA_GID_INDEX": "1"}, 26<<2 | 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWire(t)
			w.address(0, c.addr0)
			w.address(1, c.addr1)
			w.addDevices()
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			captures := [2]*capture{w.capture(0), w.capture(1)}
			p := openPeersOn(t, w.settings())
			p.transferAll()
			for end, capture := range captures {
				datagrams, reliable := 0, 0
				for _, k := range capture.take() {
					if k.isDatagram() {
						datagrams++
					} else {
						reliable++
					}
					if k.class != c.class {
						t.Fatalf("received by end %d: %+v, want class %d", end, k, c.class)
					}
				}
				if datagrams == 0 || reliable == 0 {
					t.Errorf("end %d has received %d packets of datagrams and %d of connections", end, datagrams, reliable)
				}
			}
		})
	}
}

// transferAll sends messages both ways, and reads and writes memory of peer 1.
func (w *localPeers) transferAll() {
	w.t.Helper()
	mem, dst := make([]byte, 20_000), make([]byte, 20_000)
	rand.Read(mem)
	far, err1 := w.d[1].Register(mem)
	near, err2 := w.d[0].Register(dst)
	if err := errors.Join(err1, err2); err != nil {
		w.t.Fatal(err)
	}
	w.exchange(20)
	token := uint64(len(w.done) + 1)
	if _, err := w.ep[0].Read(dst, near, far.Remote, token); err != nil {
		w.t.Fatal(err)
	}
	w.until("the end of the read", func() bool { _, ok := w.done[token]; return ok })
	if err := w.done[token]; err != nil || string(dst) != string(mem) {
		w.t.Fatalf("a read: %v, or wrong bytes", err)
	}
	rand.Read(dst)
	token++
	if _, err := w.ep[0].Write(dst, near, far.Remote, token); err != nil {
		w.t.Fatal(err)
	}
	w.until("the end of the write", func() bool { _, ok := w.done[token]; return ok })
	w.exchange(1) // when the message is there, so are the bytes
	if err := w.done[token]; err != nil || string(dst) != string(mem) {
		w.t.Fatalf("a write: %v, or wrong bytes", err)
	}
	if err := errors.Join(w.d[0].Deregister(near), w.d[1].Deregister(far)); err != nil {
		w.t.Error(err)
	}
}

// exchange sends n messages from each peer and waits until they have arrived.
func (w *localPeers) exchange(n int) {
	w.t.Helper()
	for range n {
		for i := range w.sent {
			w.send(i, w.sent[i])
			w.sent[i]++
		}
	}
	w.until("all messages", func() bool { return w.got[0] == w.sent[1] && w.got[1] == w.sent[0] })
}
