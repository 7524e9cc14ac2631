package proto

import (
	"os"
	"strconv"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/shm"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/perf"
)

// sharedEngines returns two engines connected by shared memory, for one goroutine that plays both
// processes.
func sharedEngines(b *testing.B) []*Engine {
	b.Helper()
	es := make([]*Engine, 2)
	errs := make(chan error, len(es))
	ctx := waittest.Context(b)
	for i := range es {
		go func() {
			tr := &shm.Transport{Local: []int{0, 1}, Tracer: os.Getppid()}
			copy(tr.Key[:], "bench "+strconv.Itoa(os.Getpid()))
			d, err := tr.Open(ctx, &fabric.Config{Self: i, Size: 2})
			if err != nil {
				errs <- err
				return
			}
			rec, err := perf.NewRecorder(make([]byte, perf.PageBytes), perf.Identity{Rank: i, Size: 2}, perf.On)
			if err != nil {
				errs <- err
				return
			}
			es[i], err = New(Config{Domain: d, Self: i, Size: 2, Recorder: rec})
			errs <- err
		}()
	}
	for range es {
		if err := <-errs; err != nil {
			b.Fatal(err)
		}
	}
	b.Cleanup(func() {
		for _, e := range es {
			e.Processes().AllowFinalize()
		}
		for _, e := range es {
			if err := e.Close(); err != nil {
				b.Error(err)
			}
		}
	})
	return es
}

// BenchmarkTurn measures the cost of a round trip without the transfer of cache lines between
// cores, since one goroutine plays both processes and none waits.
func BenchmarkTurn(b *testing.B) {
	es := sharedEngines(b)
	for _, size := range []int{0, 8, 256, 1024, 4096} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			s, r := make([]byte, size), make([]byte, size)
			for b.Loop() {
				for i, e := range es {
					there, here := to(i, 1-i, 5), from(i, 5)
					there.Op, here.Op = perf.Send, perf.Recv
					if err := e.Send(there, s, Standard); err != nil {
						b.Fatal(err)
					}
					if _, err := es[1-i].Recv(here, r); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkWindow measures the same for a window of messages in one direction.
func BenchmarkWindow(b *testing.B) {
	es := sharedEngines(b)
	const window = 16
	var sends, receives [window]Handle
	there, here := to(0, 1, 5), from(0, 5)
	there.Op, here.Op = perf.Isend, perf.Irecv
	for _, size := range []int{8, 64} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			s, r := make([]byte, size), make([]byte, window*size)
			for b.Loop() {
				for i := range receives {
					receives[i] = es[1].Irecv(here, r[i*size:][:size])
				}
				for i := range sends {
					var err error
					if sends[i], err = es[0].Isend(there, s, Standard); err != nil {
						b.Fatal(err)
					}
				}
				for i, hs := range [][]Handle{sends[:], receives[:]} {
					if _, err := es[i].Requests().WaitAll(perf.Waitall, hs, nil); err != nil {
						b.Fatal(err)
					}
				}
				if err := es[1].Processes().Err(); err != nil { // polls, which frees room in the transport
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/window, "ns/message")
		})
	}
}
