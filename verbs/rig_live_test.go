//go:build linux

package verbs_test

import (
	"testing"

	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs"
)

// rig is an open device with a protection domain, a completion queue and registered memory.
type rig struct {
	t   testing.TB
	dev *verbs.Context
	pd  *verbs.PD
	cq  *verbs.CQ
	buf []byte
	mr  *verbs.MR
}

const (
	all      = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.BindMW
	rigBytes = 1 << 16
)

func newRig(t testing.TB) *rig {
	t.Helper()
	dev, err := verbs.Open(live.Device(t), verbs.Options{Provider: "rxe"})
	must(t, err)
	t.Cleanup(func() { must(t, dev.Close()) })
	r := &rig{t: t, dev: dev, buf: make([]byte, rigBytes)}
	r.pd, err = dev.AllocPD()
	must(t, err)
	r.cq, err = dev.CreateCQ(256, nil)
	must(t, err)
	r.mr, err = r.pd.Register(r.buf, all)
	must(t, err)
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// qp creates a queue pair with the completion queue of the rig unless cfg has one.
func (r *rig) qp(cfg verbs.QPConfig) *verbs.QP {
	r.t.Helper()
	if cfg.SendCQ == nil {
		cfg.SendCQ = r.cq
	}
	if cfg.Type != verbs.UD {
		cfg.Access |= verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic
	}
	q, err := r.pd.CreateQP(cfg)
	must(r.t, err)
	return q
}

// pair creates two queue pairs and connects them.
func (r *rig) pair(cfg verbs.QPConfig) (a, b *verbs.QP) {
	r.t.Helper()
	a, b = r.qp(cfg), r.qp(cfg)
	r.connect(a, b, verbs.DefaultParams())
	return a, b
}

func (r *rig) connect(a, b *verbs.QP, p verbs.Params) {
	r.t.Helper()
	must(r.t, a.ConnectWith(r.address(b), p))
	must(r.t, b.ConnectWith(r.address(a), p))
}

// address returns the address of a queue pair after encoding and decoding it.
func (r *rig) address(q *verbs.QP) verbs.Address {
	r.t.Helper()
	own, err := q.Address()
	must(r.t, err)
	blob, err := own.MarshalBinary()
	must(r.t, err)
	var a verbs.Address
	must(r.t, a.UnmarshalBinary(blob))
	if a != own {
		r.t.Fatalf("an address was decoded as %+v, want %+v", a, own)
	}
	return a
}

// poll waits for n completions of a queue and returns them by ID.
func (r *rig) poll(cq *verbs.CQ, n int) map[uint64]verbs.WC {
	r.t.Helper()
	got := map[uint64]verbs.WC{}
	wc := make([]verbs.WC, 16)
	defer func() {
		if len(got) < n {
			r.t.Logf("%d of %d completions arrived: %+v", len(got), n, got)
		}
	}()
	waittest.Poll(r.t, "all completions arrive", func() bool {
		if len(got) >= n {
			return true
		}
		k, err := cq.Poll(wc)
		must(r.t, err)
		for _, c := range wc[:k] {
			if old, again := got[c.ID]; again {
				r.t.Fatalf("request %d completed twice: %+v and %+v", c.ID, old, c)
			}
			got[c.ID] = c
		}
		return len(got) >= n
	})
	return got
}

// done is poll for completions that must all have succeeded.
func (r *rig) done(n int) map[uint64]verbs.WC {
	r.t.Helper()
	got := r.poll(r.cq, n)
	for _, c := range got {
		must(r.t, c.Err())
	}
	return got
}
