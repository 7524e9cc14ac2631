//go:build linux

package verbs_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/opener"
	"github.com/ibrun/ibrun/verbs/internal/rxe"
	"github.com/ibrun/ibrun/verbs/internal/rxetest"
)

// batching is a provider that submits requests in Ring, as that for libibverbs does. Its device refuses requests whose number is
// at least refuse.
type batching struct {
	ib.Provider
	refuse uint64
}

func (g batching) Open(d ib.Device) (ib.Context, error) {
	c, err := g.Provider.Open(d)
	return batchingContext{c, g.refuse}, err
}

type batchingContext struct {
	ib.Context
	refuse uint64
}

func (c batchingContext) AllocPD() (ib.PD, error) {
	pd, err := c.Context.AllocPD()
	return batchingPD{pd, c.refuse}, err
}

type batchingPD struct {
	ib.PD
	refuse uint64
}

func (p batchingPD) CreateQP(init ib.QPInit) (ib.QP, error) {
	q, err := p.PD.CreateQP(init)
	return &batchingQP{QP: q, refuse: p.refuse}, err
}

type batchingQP struct {
	ib.QP
	refuse uint64
	stored []ib.SendWR
}

const maxBatch = 4

func (q *batchingQP) Post(wr *ib.SendWR) error {
	if len(q.stored) == maxBatch {
		if err := q.Ring(); err != nil {
			return err
		}
	}
	w := *wr
	w.SGE = append([]ib.SGE(nil), wr.SGE...)
	q.stored = append(q.stored, w)
	return nil
}

func (q *batchingQP) Ring() error {
	all := q.stored
	q.stored = nil
	for i := range all {
		if all[i].ID >= q.refuse {
			return errors.Join(dropped(len(all)-i), q.QP.Ring())
		}
		if err := q.QP.Post(&all[i]); err != nil {
			return err
		}
	}
	return q.QP.Ring()
}

// dropped is an error with the number of requests that are lost.
type dropped int

func (d dropped) Error() string { return fmt.Sprintf("%d requests were not queued", int(d)) }
func (d dropped) Unwrap() error { return syscall.EIO }
func (d dropped) Dropped() int  { return int(d) }

// TestDropped checks that Error.Dropped counts requests exactly if the device refuses them after Post has returned: each request
// either completes or is counted.
func TestDropped(t *testing.T) {
	k := rxetest.New()
	dev, err := opener.Open(batching{rxe.On(k), 6}, k.Device())
	must(t, err)
	t.Cleanup(func() { must(t, dev.Close()) })
	r := &rig{t: t, dev: dev, buf: make([]byte, rigBytes)}
	r.pd, err = dev.AllocPD()
	must(t, err)
	r.cq, err = dev.CreateCQ(256, nil)
	must(t, err)
	r.mr, err = r.pd.Register(r.buf, all)
	must(t, err)
	a, _ := r.pair(verbs.QPConfig{Type: verbs.RC})

	open := map[uint64]bool{}
	var order []uint64
	drop := func(err error, post bool, id uint64) {
		t.Helper()
		var e *verbs.Error
		if !errors.As(err, &e) || e.QPN != a.Num() || e.Post != post || post && e.ID != id || !errors.Is(err, syscall.EIO) {
			t.Fatalf("request %d: %v", id, err)
		}
		for range e.Dropped {
			delete(open, order[len(order)-1])
			order = order[:len(order)-1]
		}
	}
	for id := range uint64(11) {
		if err := a.Write(id, verbs.Signaled, r.mr.Remote(0), r.mr.SGE(0, 8)); err != nil {
			drop(err, true, id)
			continue
		}
		open[id] = true
		order = append(order, id)
	}
	if len(open) != 8 {
		t.Fatalf("after eleven posts these requests are open: %v", open)
	}
	drop(a.Ring(), false, 0)
	must(t, a.Ring()) // nothing is pending
	if len(open) != 6 {
		t.Fatalf("requests %v are open, want those below 6", open)
	}
	for id := range r.done(len(open)) {
		if !open[id] {
			t.Errorf("request %d has completed although it was dropped", id)
		}
	}
}
