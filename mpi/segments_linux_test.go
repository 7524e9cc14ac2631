package mpi_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/memaddr"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// statusKB returns a line of /proc/self/status, in KiB.
func statusKB(name string) (kb int, err error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, line, _ := strings.Cut(string(b), name+":")
	_, err = fmt.Sscanf(line, "%d kB", &kb)
	return kb, err
}

// communicators: 4,000 communicators with a short collective each take less than 200 MB of shared memory and page tables.
func communicators(p *mpi.Process) error {
	const each = 50_000 // bytes, at both ranks
	n := soaktest.Choose(4000, 300)
	used := func() (int, error) {
		shared, err := statusKB("RssShmem")
		tables, err2 := statusKB("VmPTE")
		return (shared + 2*tables) << 10, errors.Join(err, err2)
	}
	before, err := used()
	if err != nil {
		return err
	}
	var live []*mpi.Comm
	for range n {
		c, err := p.World().Dup()
		if err != nil {
			return err
		}
		sum := []int64{1}
		if err := mpi.Allreduce(c, sum, sum, mpi.Sum); err != nil {
			return err
		}
		live = append(live, c)
	}
	after, err := used()
	if err == nil {
		err = check((after-before)/n < each, "%d communicators take %d bytes each", n, (after-before)/n)
	}
	for _, c := range live {
		err = errors.Join(err, c.Free())
	}
	return err
}

// guardedSegment is a segment whose memory faults until it is allocated.
type guardedSegment struct {
	fabric.Segment
	mem []byte
}

func (s *guardedSegment) Bytes() []byte { return s.mem }

func (s *guardedSegment) Allocate(part []byte) error {
	from := int(memaddr.Of(part) - memaddr.Of(s.mem))
	return unix.Mprotect(s.mem[from-from%os.Getpagesize():from+len(part)], unix.PROT_READ|unix.PROT_WRITE)
}

// guardSegments returns options that make all segments guarded ones.
func guardSegments(t *testing.T) mpitest.Options {
	var mu sync.Mutex
	guarded := map[uint64][]byte{} // by the address of the segment, which is the same at all ranks
	t.Cleanup(func() {
		for _, mem := range guarded {
			if err := unix.Munmap(mem); err != nil {
				t.Error(err)
			}
		}
	})
	return wrapSegments(t, func(_ int, s fabric.Segment) fabric.Segment {
		mu.Lock()
		defer mu.Unlock()
		mem, ok := guarded[memaddr.Of(s.Bytes())]
		if !ok {
			var err error
			mem, err = unix.Mmap(-1, 0, len(s.Bytes()), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
			if err != nil {
				panic(err)
			}
			guarded[memaddr.Of(s.Bytes())] = mem
		}
		return &guardedSegment{s, mem}
	})
}

// TestSegmentGuarded: collectives use no memory of a segment that has not been allocated, on one node and on two.
func TestSegmentGuarded(t *testing.T) {
	top := twoSockets(t)
	for _, nodes := range []int{1, 2} {
		o := guardSegments(t)
		o.Unchecked = true
		o.Machine = func(rank int) mpitest.Machine { return boundTo(top, fmt.Sprintf("n%d %d", rank%nodes, rank)) }
		mpitest.RunWith(t, 4, o, func(p *mpi.Process) error {
			w := p.World()
			for _, n := range []int{1, 14, 15, 100, 5000, 20_000} {
				one, all, sum := make([]int64, n), make([]int64, n*w.Size()), make([]int64, n*w.Size())
				one[n-1] = int64(w.Rank() + 1)
				exchanged, counts := make([]int64, n*w.Size()), []int{n, n, n, n}
				r, err := mpi.Iallreduce(w, sum, all, mpi.Sum)
				r2, err2 := mpi.Ialltoall(w, exchanged, all) // both are in progress, so each has a receive buffer of its own
				if err = errors.Join(err, err2); err == nil {
					_, err = r.Wait()
					_, err2 = r2.Wait()
				}
				err = errors.Join(err, err2, w.Barrier(), mpi.Bcast(w, all, 1), mpi.Gather(w, all, one, 2), mpi.Scatter(w, one, all, 3),
					mpi.Allgather(w, all, one), mpi.Alltoall(w, sum, all), mpi.Reduce(w, sum, all, mpi.Sum, 0),
					mpi.ReduceScatter(w, one, sum, counts, mpi.Max), mpi.Allreduce(w, sum, all, mpi.Sum))
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
}
