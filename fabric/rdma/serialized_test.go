//go:build linux

package rdma

import (
	"errors"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// TestSimulatedSerialized: over adapters, queue pairs take no lock of their own to post; with doorbells that are system calls,
// they do. Goroutines write while this one sends, makes the connection again, and closes the domain. The race detector checks
// that calls on a pair do not overlap, see verbs.QPConfig.Serialized.
func TestSimulatedSerialized(t *testing.T) {
	adapters, rxe := verbstest.NewSimulatedAdapters(func() int { return 0 }), verbstest.NewSimulatedNetwork()
	for _, net := range []*verbstest.SimulatedNetwork{adapters, rxe} {
		ds := openOn(t, net, Settings{Devices: []string{"a", "b"}}, 2)
		a, b := ds[0], ds[1]
		for _, r := range a.rails {
			if r.Serialized != (net == adapters) || r.Dev.DoorbellIsCall() == r.Serialized {
				t.Errorf("serialized: %v; the doorbell is a call: %v", r.Serialized, r.Dev.DoorbellIsCall())
			}
		}
		connectPeers(t, a, b)
		far, err1 := b.Register(make([]byte, 64))
		src := make([]byte, 64)
		near, err2 := a.Register(src)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		var writers sync.WaitGroup
		for range 2 {
			writers.Go(func() { writeUntilClosed(t, a.eps[1], src, near, far.Remote) })
		}
		for i := range 200 {
			_ = a.eps[1].Send([]byte("message"), nil) // or there is no credit, or no connection
			if i%50 == 49 {
				a.eps[1].declareBroken(verbs.ErrState)
			}
			pollTimes(t, a, 2)
			pollTimes(t, b, 2)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		writers.Wait()
	}
}

// writeUntilClosed writes until the endpoint has ended, with few transfers in progress.
func writeUntilClosed(t *testing.T, e fabric.Endpoint, src []byte, near fabric.Region, to fabric.RemoteKey) {
	for token := uint64(0); ; token++ {
		if e.(*endpoint).d.poster.Transfers.Active.Load() > 16 {
			if e.(*endpoint).ended.Load() != nil {
				return
			}
			continue
		}
		if _, err := e.Write(src, near, to, token); errors.Is(err, fabric.ErrClosed) {
			return
		} else if err != nil {
			t.Errorf("write: %v", err)
			return
		}
	}
}
