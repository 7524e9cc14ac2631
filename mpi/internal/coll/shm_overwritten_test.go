//go:build !race

package coll

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/reduction"
)

// boundedSync waits for words, but not for ever: a word that was overwritten may never have its value.
type boundedSync struct{}

func (boundedSync) WaitAtLeast(_ int, w *uint64, v uint64) error {
	spin(w, v, 100)
	return nil
}

func (boundedSync) Publish(w *uint64, v uint64) { atomic.StoreUint64(w, v) }

func (boundedSync) Differ(int, uint64, uint64) error { return nil }

// TestShmOverwritten: ranks whose shared memory is overwritten while they use it compute anything, but touch nothing else. A
// fault or a panic would end the test.
func TestShmOverwritten(t *testing.T) {
	const size = 3
	const leastRounds, leastOverwritten = 60, 300_000 // of each rank, and words
	add, _ := reduction.Lookup(reduction.Sum, datatype.Float32)
	op := &Operation{Kernel: add, ElemSize: 4, Commutative: true}
	for _, mode := range []string{"flat", "oversubscribed", "NUMA"} {
		bytes, _ := ShmBytes(size)
		mem := make([]byte, bytes) // so long a slice begins at a page
		var stop atomic.Bool
		var overwritten atomic.Int64 // words
		var overwriter, all sync.WaitGroup
		overwriter.Go(func() {
			rng := rand.New(rand.NewPCG(1, 2))
			for !stop.Load() {
				const words = 100
				for range words {
					at := rng.IntN(len(mem) / 8)
					if rng.IntN(2) == 0 {
						at = rng.IntN(fixedBytes(size) / 8)
					}
					binary.NativeEndian.PutUint64(mem[8*at:], rng.Uint64()>>rng.IntN(64))
				}
				overwritten.Add(words)
			}
		})
		for rank := range size {
			all.Go(func() {
				f, err := NewShm(ShmConfig{Mem: mem, Rank: rank, Size: size, Oversubscribed: mode == "oversubscribed", Cores: 2,
					Sync: boundedSync{}})
				if err != nil {
					t.Error(err)
					return
				}
				if mode == "NUMA" {
					f.numa, f.Table = NewNodes([]int32{0, 0, 1}), alwaysNUMA
				}
				src, dst := make([]byte, 96<<10), make([]byte, 96<<10)
				for i := 0; i < leastRounds || overwritten.Load() < leastOverwritten; i++ {
					n := []int{12, 1200, 96 << 10}[i%3]
					for _, err := range []error{
						f.Barrier(), f.Bcast(src[:n], i%size), f.Reduce(dst[:n], src[:n], op, i%size), f.Allreduce(dst[:n], src[:n], op),
						f.Gather(dst[:n], src[:n/size], 0), f.Scatter(dst[:n/size], src[:n], 0), f.Allgather(dst[:n], src[:n/size]),
						f.Alltoall(dst[:n], src[:n]),
					} {
						if err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		all.Wait()
		stop.Store(true)
		overwriter.Wait()
	}
}
