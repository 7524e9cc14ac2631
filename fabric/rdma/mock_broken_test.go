//go:build linux && !static && (amd64 || arm64)

package rdma

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// TestMockTeardown is TestSimulatedTeardown over calls of C: connections of adapters break at random moments, and completions of
// flushed requests are late by random numbers of polls. mlx5 removes the completions of a closed queue pair, hfi1 keeps them, and
// irdma has no SRQ. With IBRUN_SOAK=1, 1,000 connections of each kind of device break.
func TestMockTeardown(t *testing.T) {
	lib := ibvmock.Load(t)
	lib.Set("speed", 64)
	profiles, breaks := []string{"mlx5_vf", "irdma", "hfi1"}, 40
	if soaktest.On() {
		profiles, breaks = nil, 1000
		for _, p := range ibvmock.Profiles() {
			profiles = append(profiles, p.Name)
		}
	}
	for _, p := range profiles {
		t.Run(p, func(t *testing.T) {
			seed := soaktest.Seed(t)
			breakOverMock(t, lib, rand.New(rand.NewPCG(seed, 1)), p, breaks)
		})
	}
}

// breakOverMock makes so many connections of two peers break, and checks that every message arrives once.
func breakOverMock(t *testing.T, lib *ibvmock.Library, r *rand.Rand, profile string, breaks int) {
	t.Helper()
	network := mockNetwork{lib.NewDevice(profile)}
	ds := openTransports(t, []*Transport{{Network: network}, {Network: network}})
	var sent, got [2]uint32
	left := breaks
	defer waittest.LogIfFailed(t, func() string { return breakState(ds, left, sent, got) })
	waittest.Poll(t, "all connections break, and all messages arrive", func() bool {
		for i, d := range ds {
			e := d.eps[1-i]
			if left > 0 && e.conn.State == cm.StateEstablished && r.IntN(100) == 0 {
				lib.Set("late", r.Int64N(3))
				lib.Set("flush_late", r.Int64N(8))
				lib.BreakQP(e.lanes.Queues[r.IntN(len(e.lanes.Queues))].QP.Num())
				left--
			}
			for range r.IntN(8) {
				if left > 0 && e.Send(binary.NativeEndian.AppendUint32(nil, sent[i]), nil) == nil {
					sent[i]++
				}
			}
			for range r.IntN(4) {
				got[i] += numberedMessages(t, d, got[i])
			}
		}
		return left == 0 && got[0] == sent[1] && got[1] == sent[0]
	})
	t.Logf("%d connections broke, and %d messages were sent", breaks, sent[0]+sent[1])
}
