package shm

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// TestStoreRelease64 compares the assembly with the store of sync/atomic: it writes the same word, and no other.
func TestStoreRelease64(t *testing.T) {
	for _, v := range []uint64{0, 1, 0xFF, 1 << 31, 1 << 32, 1<<63 + 5, 1<<64 - 1, 0x0123456789ABCDEF} {
		ours, want := [3]uint64{11, 22, 33}, [3]uint64{11, 22, 33}
		StoreRelease64(&ours[1], v)
		atomic.StoreUint64(&want[1], v)
		if ours != want {
			t.Errorf("%#x: %#x, want %#x", v, ours, want)
		}
	}
}

// TestStoreReleaseOrder: a goroutine that sees the word also sees what was stored before it.
func TestStoreReleaseOrder(t *testing.T) {
	const count = 100000
	var data [4]uint64
	var sequence, taken uint64
	go func() {
		for i := uint64(1); i <= count; i++ {
			for atomic.LoadUint64(&taken) != i-1 {
				runtime.Gosched()
			}
			for j := range data {
				data[j] = i
			}
			StoreRelease64(&sequence, i)
		}
	}()
	for i := uint64(1); i <= count; i++ {
		for atomic.LoadUint64(&sequence) != i {
			runtime.Gosched()
		}
		if data != [4]uint64{i, i, i, i} {
			t.Fatalf("sequence %d: %v", i, data)
		}
		StoreRelease64(&taken, i)
	}
}

// TestPause: Pause changes no registers or memory.
func TestPause(t *testing.T) {
	sum := func(between func()) (x uint64, f float64) {
		for i := range uint64(1000) {
			x, f = x*31+i, f/3+float64(i)
			between()
		}
		return x, f
	}
	x, f := sum(Pause)
	if y, g := sum(func() {}); x != y || f != g {
		t.Errorf("%d and %v with pauses, %d and %v without", x, f, y, g)
	}
}
