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

	"github.com/ibrun/ibrun/mpi/internal/dtype"
	"golang.org/x/sys/unix"
)

// The benchmarks of this file run ranks in processes of their own, as they are in earnest: the test binary starts itself once
// per rank, with the shared memory as descriptor 3.

// rankVar tells a copy of the test binary that it is a rank: "rank size crowded operation bytes times".
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

func (y yielder) WaitAtLeast(w *uint64, v uint64) error {
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

// benchRank is the program of one rank. Rank 0 prints the time of one operation in nanoseconds.
func benchRank(spec string) error {
	var rank, size, length, times int
	var op string
	var crowded bool
	if _, err := fmt.Sscan(spec, &rank, &size, &crowded, &op, &length, &times); err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	if !crowded {
		runtime.LockOSThread()
		var set unix.CPUSet
		set.Set(rank)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return err
		}
	}
	mem, err := unix.Mmap(3, 0, bytesToShare(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	w := yielder{look: 1000}
	if crowded {
		w.look = 1
	}
	f, err := NewFlat(Shared{Mem: mem, Rank: rank, Size: size, Crowded: crowded, Wait: w})
	if err != nil {
		return err
	}
	call := benchCall(f, op, length)
	best := time.Duration(math.MaxInt64)
	const batches = 20 // the best one tells what the machine can do when nothing else runs
	for range batches {
		if err := f.Barrier(); err != nil {
			return err
		}
		t := time.Now()
		for range times / batches {
			if err := call(); err != nil {
				return err
			}
		}
		best = min(best, time.Since(t))
	}
	if err := f.Barrier(); err != nil {
		return err
	}
	if rank == 0 {
		fmt.Println(best.Nanoseconds() / int64(times/batches))
	}
	return nil
}

// bytesToShare is how much memory ranks share; a number in the environment may say so.
func bytesToShare(size int) int {
	n, _ := FlatBytes(size)
	if kb, err := strconv.Atoi(os.Getenv("COLL_BENCH_KIB")); err == nil {
		n = kb * kib
	}
	return n
}

func benchCall(f *Flat, op string, n int) func() error {
	add, _ := dtype.Lookup(dtype.Sum, dtype.Float32)
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

func BenchmarkFlat(b *testing.B) {
	for _, size := range []int{2, 4, 8} {
		for _, c := range []struct {
			op           string
			bytes, times int
		}{
			{"barrier", 0, 50000}, {"allreduce", 8, 50000}, {"allreduce", kib, 50000}, {"allreduce", 16 * kib, 5000},
			{"allreduce", 64 * kib, 2000}, {"allreduce", kib * kib, 200},
			{"reduce", 8, 50000}, {"bcast", 8, 50000}, {"bcast", 64 * kib, 2000},
		} {
			b.Run(fmt.Sprintf("%s/size=%d/ranks=%d", c.op, c.bytes, size), func(b *testing.B) {
				best := math.MaxInt
				for b.Loop() {
					best = min(best, benchProcesses(b, size, c.op, c.bytes, c.times))
				}
				b.ReportMetric(0, "ns/op") // of no interest: it is the time to start processes
				b.ReportMetric(float64(best), "ns/call")
			})
		}
	}
}

// benchProcesses starts the ranks and returns the nanoseconds of one call.
func benchProcesses(b *testing.B, size int, op string, length, times int) int {
	fd, err := unix.MemfdCreate("coll", unix.MFD_CLOEXEC)
	if err != nil {
		b.Fatal(err)
	}
	mem := os.NewFile(uintptr(fd), "coll")
	defer mem.Close()
	if err := mem.Truncate(int64(bytesToShare(size))); err != nil {
		b.Fatal(err)
	}
	ranks := make([]*exec.Cmd, size)
	var out strings.Builder
	for r := range ranks {
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), rankVar+"="+fmt.Sprintln(r, size, size > runtime.NumCPU(), op, length, times))
		c.ExtraFiles, c.Stdout, c.Stderr = []*os.File{mem}, &out, os.Stderr
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
