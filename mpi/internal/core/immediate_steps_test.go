package core

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// sharedInProcess is what ranks in this process need to share memory. Nothing is copied.
type sharedInProcess struct{}

func (sharedInProcess) Publish(w *uint64, v uint64)            { atomic.StoreUint64(w, v) }
func (sharedInProcess) Differ(int, uint64, uint64) error       { return errors.New("the calls differ") }
func (sharedInProcess) Process() uint64                        { return 0 }
func (sharedInProcess) Address([]byte) uint64                  { return 0 }
func (sharedInProcess) Read(int, uint64, []byte, uint64) error { return nil }

// TestImmediateAbandoned: when the engine of a rank has failed, a rank that has copied from its buffer does not take what it has
// read for the data, and the collective is not advanced any more.
func TestImmediateAbandoned(t *testing.T) {
	var all [3]*immediate
	words, data := coll.ShmImmediateBytes(len(all))
	buf, c := make([]byte, 256<<10), coll.ShmImmediateConfig{ // slices of whole pages begin at pages
		Words: make([]byte, max(words, 64<<10)), Data: make([]byte, data), Size: len(all), Sync: sharedInProcess{},
	}
	for r := range all {
		c.Rank = r
		f, err := coll.NewShmImmediate(c)
		if err != nil {
			t.Fatal(err)
		}
		f.ReadDirectly(sharedInProcess{}, make([]uint64, len(all)))
		x := &immediate{of: &Collectives{}}
		x.plan.Reset(r, len(all), nil)
		x.plan.SetShared(&coll.ShmImmediates{f}, 0)
		if err := coll.Bcast(&x.plan, buf, 0); err != nil {
			t.Fatal(err)
		}
		f.Begin(&x.plan.SharedCalls[0], 1)
		f.Allocate(&x.plan.SharedCalls[0])
		all[r] = x
	}
	root, reader := all[0], all[1]
	for _, x := range all {
		if s, _ := x.Step(1); s.Kind != proto.StepLong {
			t.Fatal("the ranks do not copy directly")
		}
		for i := range 2 { // posts, and copies
			err := proto.ErrNotYet
			for err == proto.ErrNotYet || err == proto.ErrPartDone {
				err = x.Do(i)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	failed := errors.New("failed")
	root.Abandoned(failed)
	if err := root.doShared(0); err != failed {
		t.Errorf("the root gets %v", err)
	}
	waitsFor, done, err := reader.plan.Shared(0).Advance(&reader.plan.SharedCalls[0])
	if waitsFor != 0 || done || err != nil {
		t.Errorf("the reader waits for %d, done %v, %v", waitsFor, done, err)
	}
}

// TestImmediatesKept: the free list keeps scratch memory for later calls, but no more than maxKept, however many calls were in
// progress at once, and however long they were.
func TestImmediatesKept(t *testing.T) {
	cs := &Collectives{comm: &Comm{proc: &Process{}}}
	l := &cs.immediates
	heap := func() int {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return int(s.HeapAlloc)
	}
	before := heap()
	for _, n := range []int{1, maxKept / 8, maxKept, maxKept + 1} {
		var all []*immediate
		for range 12 {
			x := l.take(cs)
			x.plan.Scratch(n)
			all = append(all, x)
		}
		if l.kept != 0 {
			t.Errorf("%d bytes each: %d bytes are kept by calls in progress", n, l.kept)
		}
		for _, x := range all {
			l.put(x)
		}
		kept := 0
		for x := l.free; x != nil; x = x.next {
			kept += x.plan.Kept()
		}
		if kept != l.kept || kept > maxKept || n <= maxKept && kept < min(maxKept-n, 12*n) {
			t.Errorf("%d bytes each: the free list keeps %d bytes, and counts %d", n, kept, l.kept)
		}
		all = nil
		if more := heap() - before; more > maxKept+1<<20 {
			t.Errorf("%d bytes each: %d bytes are in use afterwards", n, more)
		}
	}
}
