package coll

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/reduction"
)

// The benchmarks of this file run ranks in processes of their own, as they are in earnest: the test binary starts
// itself once per rank, with the shared memory as descriptor 3.

// rankVar makes a copy of the test binary a rank: "rank size oversubscribed operation bytes batch".
const rankVar = "COLL_BENCH_RANK"

func TestMain(m *testing.M) {
	if spec := os.Getenv(rankVar); spec != "" {
		if err := benchRank(spec); err != nil {
			fmt.Fprintln(os.Stderr, "rank:", spec, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// yielder waits for words by giving the core away.
type yielder struct{ look int }

func (y yielder) WaitAtLeast(_ int, w *uint64, v uint64) error {
	for {
		for range y.look {
			if int64(atomic.LoadUint64(w)-v) >= 0 {
				return nil
			}
		}
		unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

func (yielder) Publish(w *uint64, v uint64) { atomic.StoreUint64(w, v) }

func (yielder) Differ(rank int, _, _ uint64) error {
	return fmt.Errorf("rank %d makes another call", rank)
}

// benchRank is the program of one rank. Rank 0 prints the time of one operation in nanoseconds.
func benchRank(spec string) error {
	var rank, size, length, batch int
	var op string
	var oversubscribed bool
	if _, err := fmt.Sscan(spec, &rank, &size, &oversubscribed, &op, &length, &batch); err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	if !oversubscribed {
		runtime.LockOSThread()
		if err := pin(rank); err != nil {
			return err
		}
	}
	bytes, _ := ShmBytes(size)
	mem, err := unix.Mmap(3, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	w := yielder{look: 1000}
	if oversubscribed {
		w.look = 1
	}
	f, err := NewShm(ShmConfig{Mem: mem, Rank: rank, Size: size, Oversubscribed: oversubscribed, Cores: runtime.NumCPU(), Sync: w})
	if err != nil {
		return err
	}
	call := benchCall(f, op, length)
	// After each batch rank 0 reports whether another one follows. The best batch shows what the machine can do when
	// nothing else runs.
	best, begun, again := time.Duration(math.MaxInt64), time.Now(), []byte{1}
	for again[0] == 1 {
		t := time.Now()
		for range batch {
			if err := call(); err != nil {
				return err
			}
		}
		best = min(best, time.Since(t))
		if time.Since(begun) > time.Second/4 {
			again[0] = 0
		}
		if err := f.Bcast(again, 0); err != nil {
			return err
		}
	}
	if rank == 0 {
		fmt.Println(best.Nanoseconds() / int64(batch))
	}
	return nil
}

// pin binds this thread to the core of some number among those that are allowed.
func pin(number int) error {
	var may, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return err
	}
	for cpu := range len(may) * 64 {
		if may.IsSet(cpu) {
			if number == 0 {
				one.Set(cpu)
			}
			number--
		}
	}
	return unix.SchedSetaffinity(0, &one)
}

// benchCall is what is timed. The operations that do not make all wait for all are followed by one that does.
func benchCall(f *Shm, op string, n int) func() error {
	add, _ := reduction.Lookup(reduction.Sum, datatype.Float32)
	o := &Operation{Kernel: add, ElemSize: 4, Commutative: true}
	src, dst := bytes.Repeat([]byte{1}, n), make([]byte, n)
	switch op {
	case "barrier":
		return f.Barrier
	case "bcast":
		return func() error {
			if err := f.Bcast(src, 0); err != nil {
				return err
			}
			return f.Barrier()
		}
	case "reduce":
		return func() error {
			if err := f.Reduce(dst, src, o, 0); err != nil {
				return err
			}
			return f.Barrier()
		}
	}
	return func() error { return f.Allreduce(dst, src, o) }
}

func BenchmarkShm(b *testing.B) {
	for _, size := range []int{2, 4, 8} {
		for _, c := range []struct {
			op           string
			bytes, batch int
		}{
			{"barrier", 0, 1000}, {"allreduce", 8, 1000}, {"allreduce", kib, 1000}, {"allreduce", 16 * kib, 500},
			{"allreduce", 64 * kib, 200}, {"allreduce", kib * kib, 20},
			{"reduce", 8, 1000}, {"bcast", 8, 1000}, {"bcast", 64 * kib, 200},
		} {
			b.Run(fmt.Sprintf("%s/size=%d/ranks=%d", c.op, c.bytes, size), func(b *testing.B) {
				best := math.MaxInt
				for b.Loop() {
					best = min(best, benchProcesses(b, size, c.op, c.bytes, c.batch))
				}
				b.ReportMetric(0, "ns/op") // of no interest: it is the time to start processes
				b.ReportMetric(float64(best), "ns/call")
			})
		}
	}
}

// benchProcesses starts the ranks and returns the nanoseconds of one call.
func benchProcesses(b *testing.B, size int, op string, length, batch int) int {
	fd, err := unix.MemfdCreate("coll", unix.MFD_CLOEXEC)
	if err != nil {
		b.Fatal(err)
	}
	mem := os.NewFile(uintptr(fd), "coll")
	defer mem.Close()
	total, _ := ShmBytes(size)
	if err := mem.Truncate(int64(total)); err != nil {
		b.Fatal(err)
	}
	ctx := waittest.Context(b) // a rank that fails leaves the others waiting
	ranks := make([]*exec.Cmd, size)
	var out strings.Builder
	for r := range ranks {
		c := exec.CommandContext(ctx, "/proc/self/exe")
		c.Env = append(os.Environ(), rankVar+"="+fmt.Sprintln(r, size, size > runtime.NumCPU(), op, length, batch))
		c.ExtraFiles, c.Stderr = []*os.File{mem}, os.Stderr
		if r == 0 {
			c.Stdout = &out
		}
		if err := c.Start(); err != nil {
			b.Fatal(err)
		}
		ranks[r] = c
	}
	for _, c := range ranks {
		if err := c.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	ns, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		b.Fatal(err)
	}
	return ns
}
