//go:build linux && !static && (amd64 || arm64)

package verbstest_test

import (
	"testing"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// mockPair is two connected queue pairs of a device of the mock.
type mockPair struct {
	ctx      *verbs.Context
	a, b     *verbs.QP
	aCQ, bCQ *verbs.CQ
	aMR, bMR *verbs.MR
	wcs      []verbs.WC
}

func newMockPair(tb testing.TB, profile string) *mockPair {
	tb.Helper()
	return newMockPairOn(tb, ibvmock.Load(tb).NewDevice(profile))
}

func newMockPairOn(tb testing.TB, dev hw.RDMADevice) *mockPair {
	tb.Helper()
	return newMockPairWith(tb, dev, verbs.DefaultParams())
}

// newMockPairWith is newMockPairOn with parameters of the connection.
func newMockPairWith(tb testing.TB, dev hw.RDMADevice, params verbs.Params) *mockPair {
	tb.Helper()
	ctx := openMock(tb, dev)
	pd := mustOpen(ctx.AllocPD())(tb)
	p := &mockPair{ctx: ctx, wcs: make([]verbs.WC, 4)}
	p.aCQ, p.bCQ = mustOpen(ctx.CreateCQ(64, nil))(tb), mustOpen(ctx.CreateCQ(64, nil))(tb)
	cfg := verbs.QPConfig{Type: verbs.RC, MaxInline: 64, Access: verbs.RemoteWrite, Serialized: true} // as in fabric/rdma
	cfg.SendCQ = p.aCQ
	p.a = mustOpen(pd.CreateQP(cfg))(tb)
	cfg.SendCQ = p.bCQ
	p.b = mustOpen(pd.CreateQP(cfg))(tb)
	for _, ends := range [][2]*verbs.QP{{p.a, p.b}, {p.b, p.a}} {
		if err := ends[0].ConnectWith(mustOpen(ends[1].Address())(tb), params); err != nil {
			tb.Fatal(err)
		}
	}
	p.aMR = mustOpen(pd.Register(make([]byte, 4096), verbs.LocalWrite))(tb)
	p.bMR = mustOpen(pd.Register(make([]byte, 4096), verbs.LocalWrite|verbs.RemoteWrite))(tb)
	return p
}

// mustOpen returns a function that fails the test with an error, or returns the value.
func mustOpen[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// message sends eight inline bytes from a to b: post a receive, post the send, poll both completion queues.
func (p *mockPair) message(tb testing.TB, data []byte) {
	if err := p.b.Recv(1, p.bMR.SGE(0, 64)); err != nil {
		tb.Fatal(err)
	}
	if err := p.a.SendInline(2, verbs.Signaled|verbs.RingDoorbell, data); err != nil {
		tb.Fatal(err)
	}
	n, err := p.bCQ.Poll(p.wcs)
	m, errA := p.aCQ.Poll(p.wcs)
	if n != 1 || m != 1 || err != nil || errA != nil || p.wcs[0].Err() != nil {
		tb.Fatalf("%d receives, %v; %d sends, %v; %v", n, err, m, errA, p.wcs[0].Err())
	}
}

// TestMockAllocs counts the allocations of a message through C: none.
func TestMockAllocs(t *testing.T) {
	p, data := newMockPair(t, "mlx5_roce"), make([]byte, 8)
	if n := alloctest.Count(1000, func() { p.message(t, data) }); n != 0 {
		t.Errorf("a message allocates %v times, want 0", n)
	}
}

// BenchmarkMockMessage measures a message of eight bytes, from the post of the receive until both completions are polled. The
// mock delivers it in ibv_post_send, so the time is that of the software on both sides, and of the mock.
func BenchmarkMockMessage(b *testing.B) {
	p, data := newMockPair(b, "mlx5_roce"), make([]byte, 8)
	b.ReportAllocs()
	for b.Loop() {
		p.message(b, data)
	}
}

// BenchmarkMockRate measures messages of eight bytes in batches of sixteen: lists of receives and of sends.
func BenchmarkMockRate(b *testing.B) {
	p, data := newMockPair(b, "mlx5_roce"), make([]byte, 8)
	const batch = 16
	wcs, receives := make([]verbs.WC, batch), make([]verbs.Receive, batch)
	for i := range receives {
		receives[i] = verbs.Receive{ID: 1, SGE: p.bMR.SGE(64*i, 64)}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		var flags verbs.Flags
		if i%batch == batch-1 {
			flags = verbs.Signaled | verbs.RingDoorbell
		}
		if i%batch == 0 {
			if _, err := p.b.RecvList(receives); err != nil {
				b.Fatal(err)
			}
		}
		if err := p.a.SendInline(2, flags, data); err != nil {
			b.Fatal(err)
		}
		if flags == 0 {
			continue
		}
		n, err := p.bCQ.Poll(wcs)
		m, errA := p.aCQ.Poll(wcs)
		if n != batch || m != 1 || err != nil || errA != nil {
			b.Fatalf("%d receives, %v; %d sends, %v", n, err, m, errA)
		}
	}
}

func openMock(tb testing.TB, d hw.RDMADevice) *verbs.Context {
	tb.Helper()
	ctx := mustOpen(verbstest.OpenLibrary(d))(tb)
	tb.Cleanup(func() {
		if err := ctx.Close(); err != nil {
			tb.Error(err)
		}
	})
	return ctx
}
