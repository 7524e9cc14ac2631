package coll

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
)

// alwaysNUMA selects two levels wherever there is that algorithm.
var alwaysNUMA = func() *Table {
	t := &Table{}
	for c := OfBarrier; c <= OfReduceScatter; c++ {
		if slices.Contains(Candidates(c), SharedTwoLevel) {
			t.Rules = append(t.Rules, Rule{Collective: c, Algorithm: SharedTwoLevel, MaxBytes: always})
		}
	}
	return t
}()

// useNUMA lets ranks use two levels for collectives of all lengths. of has the NUMA node of each.
func useNUMA(t testing.TB, shms []*Shm, of []int32) {
	t.Helper()
	err := errors.Join(callAll(shms, func(f *Shm) error {
		if f.Table == nil {
			f.Table = alwaysNUMA
		}
		return f.FindNUMA(int(of[f.Rank]))
	})...)
	if err != nil {
		t.Fatal(err)
	}
}

// TestFindNUMA: there are two levels if the NUMA nodes of all ranks are known, and some but not all ranks share one.
func TestFindNUMA(t *testing.T) {
	many := make([]int32, 2*(maxSlots/numaPlaces+1))
	for r := range many {
		many[r] = int32(r / 2)
	}
	for _, c := range []struct {
		of             []int32
		oversubscribed bool
		levels         int
	}{
		{[]int32{0, 0, 1, 1}, false, 2}, {[]int32{5, 0, 5}, false, 2}, {[]int32{1, 0, 0, 3, 3, 1, 7}, false, 4},
		{[]int32{0, 0, 1, 1}, true, 0}, {[]int32{0, 0, -1, -1}, false, 0}, {[]int32{2, 2, 2}, false, 0}, {[]int32{0, 1, 2}, false, 0},
		{[]int32{0}, false, 0}, {many[2:], false, maxSlots / numaPlaces}, {many, false, 0},
	} {
		best, _ := ShmBytes(len(c.of))
		shms, _ := newShms(t, len(c.of), best, c.oversubscribed)
		useNUMA(t, shms, c.of)
		for r, f := range shms {
			levels := 0
			if n := f.numa; n != nil {
				levels = len(n.ranks)
				if !slices.ContainsFunc(n.Beside(r), func(x int32) bool { return int(x) == r }) || c.of[n.Beside(r)[0]] != c.of[r] {
					t.Errorf("%v: rank %d is beside %v", c.of, r, n.Beside(r))
				}
			}
			if two := f.Select(OfBarrier, 0) == SharedTwoLevel; levels != c.levels || two != (levels > 0) {
				t.Errorf("%v, oversubscribed %v: rank %d has %d levels, want %d; two levels %v", c.of, c.oversubscribed, r, levels,
					c.levels, two)
			}
			head, data := f.place(maxSlots/numaPlaces-1, numaPlaces-1, placeBytes)
			if head+line > cap(f.Mem) || &data[len(data)-1] == &f.data(0, f.slotBytes)[0] {
				t.Errorf("%d ranks: the last place overlaps data", len(c.of))
			}
		}
	}
}

// TestShmNUMA is TestShm for ranks on several NUMA nodes. With IBRUN_SOAK=1 it tries each number of ranks from 3 to 8.
func TestShmNUMA(t *testing.T) {
	for _, n := range soaktest.Choose([]int{3, 4, 5, 6, 7, 8}, []int{3, 5, 8}) {
		best, least := ShmBytes(n)
		for seed, memory := range []int{least, best, least + 3*n*minSlotBytes, best} {
			r := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
			of := make([]int32, n)
			for i := range of {
				of[i] = int32(r.IntN(2 + seed%2))
				if seed == 2 { // the ranks of a NUMA node follow each other
					of[i] = int32(3 * i / n)
				}
			}
			t.Run(fmt.Sprintf("nodes=%v/seed=%d", of, seed), func(t *testing.T) {
				var acts []act
				for range 60 {
					length := []int{0, 1, 8, 24, 104, 112, 120, placeBytes, 1001, 5000, 20000, 70000 / n}[r.IntN(12)]
					acts = append(acts, draw(r, n, length), act{"barrier", (*Shm).Barrier, func() error { return nil }})
					if r.IntN(2) == 0 {
						acts = acts[:len(acts)-1]
					}
				}
				shms, _ := newShms(t, n, memory, false)
				if seed == 3 {
					shms = newDirectShms(t, n, memory, false)
				}
				useNUMA(t, shms, of)
				runActs(t, shms, acts)
				if f := shms[0]; f.numa != nil && f.exchanges < 20 {
					t.Errorf("the leaders have met %d times", f.exchanges)
				}
			})
		}
	}
}

// TestShmNUMAWaits: no rank leaves a Barrier on two levels before all have come.
func TestShmNUMAWaits(t *testing.T) {
	for _, of := range [][]int32{{0, 0, 1}, {0, 1, 0, 1}, {2, 1, 1, 1, 0}, {0, 0, 0, 0, 1, 1, 1, 1}} {
		best, _ := ShmBytes(len(of))
		shms, _ := newShms(t, len(of), best, false)
		useNUMA(t, shms, of)
		var in atomic.Int64
		for _, err := range callAll(shms, func(f *Shm) error {
			for i := range 100 {
				f.Begin(uint64(i))
				in.Add(1)
				if err := f.Barrier(); err != nil {
					return err
				}
				if got := in.Load(); got < int64(len(of)*(i+1)) {
					return fmt.Errorf("barrier %d of %v was left when %d had come", i, of, got-int64(len(of)*i))
				}
			}
			return nil
		}) {
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// mortalSync is the WordSync of a rank that dies when it publishes for the last time: before the word is stored, or after.
// The waits of other ranks for a rank that has left fail, and each rank whose wait fails leaves.
type mortalSync struct {
	rank  int
	left  []atomic.Bool
	lives int // how often it publishes; negative: it lives on
	after bool
}

func (s *mortalSync) WaitAtLeast(rank int, w *uint64, v uint64) error {
	for !spin(w, v, 1) {
		if s.left[rank].Load() && !spin(w, v, 1) {
			s.left[s.rank].Store(true)
			return errBroken
		}
		runtime.Gosched()
	}
	return nil
}

func (s *mortalSync) Publish(w *uint64, v uint64) {
	s.lives--
	if s.lives != 0 || s.after {
		atomic.StoreUint64(w, v)
	}
	if s.lives == 0 {
		s.left[s.rank].Store(true)
		runtime.Goexit()
	}
}

func (s *mortalSync) Differ(rank int, mine, other uint64) error { return difference{rank, mine, other} }

// TestShmNUMADeath: whenever a rank dies in a collective on two levels, the others return, and what they return without an error
// is right.
func TestShmNUMADeath(t *testing.T) {
	for _, of := range [][]int32{{0, 0, 1, 1}, {1, 0, 0, 1, 0}} {
		for dead := range of {
			for lives, died := 1, true; died; lives++ { // as often as it publishes
				died = dieAt(t, of, dead, lives, false) && dieAt(t, of, dead, lives, true)
			}
		}
	}
}

// dieAt lets a rank die, and reports whether it did.
func dieAt(t *testing.T, of []int32, dead, lives int, after bool) bool {
	_, least := ShmBytes(len(of))
	shms, _ := newShms(t, len(of), least, false)
	useNUMA(t, shms, of)
	left := make([]atomic.Bool, len(of))
	for r, f := range shms {
		f.Sync = &mortalSync{r, left, -1, after}
	}
	shms[dead].Sync.(*mortalSync).lives = lives
	errDied := errors.New("died")
	ended := make([]error, len(of))
	ended[dead] = errDied // unless it returns
	var all sync.WaitGroup
	for r, f := range shms {
		all.Go(func() { ended[r] = someOnTwoLevels(f) })
	}
	all.Wait()
	for r, err := range ended {
		switch {
		case r == dead && err == errDied:
		case err == nil && shms[dead].step < shms[r].step: // it left the last Barrier before all had come
			t.Errorf("%v: rank %d died in step %d, but rank %d ended after %d", of, dead, shms[dead].step, r, shms[r].step)
		case err != nil && !errors.Is(err, errBroken):
			t.Errorf("%v: rank %d publishes %d times: rank %d: %v", of, dead, lives, r, err)
		}
	}
	return ended[dead] == errDied
}

// someOnTwoLevels does each collective that has two levels, with an operand of 1 from each rank, and a Barrier at the end.
func someOnTwoLevels(f *Shm) error {
	for _, c := range []struct{ bytes, root int }{ // root: of a Reduce; negative: an Allreduce
		{4, -1}, {4, 0}, {placeBytes + 4, -1}, {f.slotBytes + 4, f.Size - 1},
	} {
		if err := f.Barrier(); err != nil {
			return err
		}
		ones, sum := bytes.Repeat([]byte{1, 0, 0, 0}, c.bytes/4), make([]byte, c.bytes)
		want, err := bytes.Repeat([]byte{byte(f.Size), 0, 0, 0}, c.bytes/4), error(nil)
		if c.root < 0 {
			err = f.Allreduce(sum, ones, add())
		} else if err = f.Reduce(sum, ones, add(), c.root); f.Rank != c.root {
			want = sum
		}
		if err != nil {
			return err
		}
		if !bytes.Equal(sum, want) {
			return fmt.Errorf("%+v: %v, want %v", c, sum, want)
		}
	}
	return f.Barrier()
}
