package mpitest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/mpi/simulate"
)

// exact is a model in which times are easy to compute: a byte takes 1 ns.
var exact = simulate.Model{Node: simulate.Link{Latency: 10, Overhead: 1, Bandwidth: 1e9},
	Network: simulate.Link{Latency: 100, Overhead: 5, Bandwidth: 1e9}, Copy: 1e18, Reduce: 1e18, Eager: 1000}

// header, rts and fin are the lengths of what the engine adds to a message, and of its messages of a rendezvous.
const (
	header = wire.EnvelopeBytes
	rts    = header + 5*8
	fin    = header + 8
)

// nanoseconds returns a time that Wtime has returned.
func nanoseconds(wtime float64) time.Duration { return time.Duration(wtime*1e9 + 0.5) }

// runVirtual runs f in virtual time.
func runVirtual(t *testing.T, n, perNode int, m simulate.Model, f func(p *mpi.Process) error) {
	t.Helper()
	RunWith(t, n, Options{Virtual: &Cluster{RanksPerNode: perNode, Model: m}}, f)
}

// pingPong returns how long two ranks of a world of two need from a send until the answer has arrived.
func pingPong(t *testing.T, o Options, bytes int) (took time.Duration) {
	RunWith(t, 2, o, func(p *mpi.Process) error {
		w, b := p.World(), make([]byte, bytes)
		if err := w.Barrier(); err != nil {
			return err
		}
		if w.Rank() == 1 {
			if _, err := mpi.Recv(w, b, 0, 0); err != nil {
				return err
			}
			return mpi.Send(w, b, 0, 0)
		}
		start := p.Wtime()
		if err := mpi.Send(w, b, 1, 0); err != nil {
			return err
		}
		if _, err := mpi.Recv(w, b, 1, 0); err != nil {
			return err
		}
		took = nanoseconds(p.Wtime() - start)
		return nil
	})
	return took
}

// TestVirtualPingPong computes times by hand: short and long messages, within a node and between nodes.
func TestVirtualPingPong(t *testing.T) {
	apart := func(rank int) Machine { return Machine{Name: fmt.Sprint("n", rank)} }
	for _, c := range []struct {
		perNode int
		machine func(rank int) Machine
		bytes   int
		want    time.Duration
	}{
		{2, nil, 100, 2 * (1 + header + 100 + 10 + 1)},
		{1, nil, 100, 2 * (5 + header + 100 + 100 + 5)},
		{2, apart, 100, 2 * (5 + header + 100 + 100 + 5)},
		// RTS, the request of the read, and the data. FIN takes the link before the RTS of the answer, and one more overhead before
		// the last receive returns.
		{1, nil, 2000, 2*(5+rts+100+5+5+100+2000+100+5) + fin + 5},
	} {
		o := Options{Virtual: &Cluster{RanksPerNode: c.perNode, Model: exact}, Machine: c.machine}
		if took := pingPong(t, o, c.bytes); took != c.want {
			t.Errorf("%d bytes, %d ranks on a node: %v, want %v", c.bytes, c.perNode, took, c.want)
		}
	}
}

// TestVirtualRefused: a cluster that makes no sense is an error.
func TestVirtualRefused(t *testing.T) {
	for _, c := range []Cluster{{RanksPerNode: -1}, {Model: simulate.Model{Eager: 1}}} {
		if err := RanksWith(2, Options{Virtual: &c}, func(*mpi.Process) error { return nil }); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}

// collectives are calls that check their results.
var collectives = []struct {
	name  string
	bytes int // as simulate.Run counts them
	run   func(c *mpi.Comm) error
}{
	{"barrier", 0, (*mpi.Comm).Barrier},
	{"bcast", 8, checkBcast},
	{"allreduce", 8, checkAllreduce},
	{"alltoall", 8, checkAlltoall},
}

// virtualTimes runs collectives, which all ranks begin at the same time, and returns how long each took at each rank. It logs
// the time of this machine.
func virtualTimes(t *testing.T, n, perNode int, m simulate.Model) [][]time.Duration {
	times := make([][]time.Duration, n)
	cluster := &Cluster{RanksPerNode: perNode, Model: m}
	last := time.Now()
	lap := func(rank int, what string) {
		if rank == 0 && n > 1000 {
			t.Logf("%d ranks, until rank 0 has ended %s: %v of this machine", n, what, time.Since(last))
			last = time.Now()
		}
	}
	RunWith(t, n, Options{Virtual: cluster}, func(p *mpi.Process) error {
		c := p.World()
		rank := c.Rank()
		lap(rank, "Init")
		for _, op := range collectives {
			begin := []float64{p.Wtime()}
			if err := mpi.Allreduce(c, begin, begin, mpi.Max); err != nil {
				return err
			}
			begin[0] += 1e-3 // later than any clock now
			cluster.Compute(rank, nanoseconds(begin[0]-p.Wtime()))
			if err := op.run(c); err != nil {
				return fmt.Errorf("%s: %w", op.name, err)
			}
			times[rank] = append(times[rank], nanoseconds(p.Wtime()-begin[0]))
			lap(rank, op.name)
		}
		return nil
	})
	return times
}

// TestVirtualTimesRepeat: two runs of a program have the same times at all ranks.
func TestVirtualTimesRepeat(t *testing.T) {
	for _, n := range []int{2, 13, 64} {
		first := virtualTimes(t, n, 4, simulate.DefaultModel)
		for range 3 {
			if again := virtualTimes(t, n, 4, simulate.DefaultModel); !slices.EqualFunc(first, again, slices.Equal) {
				t.Fatalf("%d ranks: %v and then %v", n, first, again)
			}
		}
	}
}

// TestVirtualAgainstSimulate compares whole processes with the algorithms alone, by the same model. They may take a tenth
// longer: each message of a process has a header of 16 bytes, a rank that receives and sends does one after the other, and a
// rendezvous has messages of its own. They may be a fifth faster, since copies take no time.
func TestVirtualAgainstSimulate(t *testing.T) {
	worlds := []struct{ ranks, perNode int }{{8, 1}, {64, 8}, {256, 64}}
	if soaktest.On() {
		worlds = append(worlds, struct{ ranks, perNode int }{4096, 64})
	}
	for _, w := range worlds {
		times := virtualTimes(t, w.ranks, w.perNode, simulate.DefaultModel)
		for i, op := range collectives {
			took := time.Duration(0)
			for _, x := range times {
				took = max(took, x[i])
			}
			cfg := simulate.Config{Ranks: w.ranks, RanksPerNode: w.perNode, Selected: true}
			want, err := simulate.Run(cfg, op.name, op.bytes)
			if err != nil {
				t.Fatal(err)
			}
			ratio := float64(took) / float64(want[0].Time)
			t.Logf("%d ranks, %s: %v, simulated %v: %.2f", w.ranks, op.name, took, want[0].Time, ratio)
			if ratio < 0.8 || ratio > 1.1 {
				t.Errorf("%s of %d ranks takes %v, %.2f times of what was simulated", op.name, w.ranks, took, ratio)
			}
		}
	}
}

// TestVirtualDeath: what a rank has sent before it fails arrives, and then its failure, at a rank that waits for it.
func TestVirtualDeath(t *testing.T) {
	died, received := errors.New("died"), 0
	failures := run(t, 3, Options{Virtual: &Cluster{RanksPerNode: 1, Model: exact}}, func(p *mpi.Process) error {
		c := p.World()
		switch c.Rank() {
		case 0:
			b := make([]byte, 900)
			for {
				if _, err := mpi.Recv(c, b, 1, 0); err != nil {
					return err
				}
				received++
			}
		case 1:
			for range 50 {
				if err := mpi.Send(c, make([]byte, 900), 0, 0); err != nil {
					return err
				}
			}
			return died
		}
		return c.Barrier()
	})
	if len(failures) != 1 || !errors.Is(failures[0], died) || received != 50 {
		t.Errorf("%v, after %d messages; want the error of rank 1 after 50", failures, received)
	}
}

// TestVirtualDeparture: a receive fails when the only rank that could send has left in order, after what it has sent.
func TestVirtualDeparture(t *testing.T) {
	runVirtual(t, 2, 1, exact, func(p *mpi.Process) error {
		c := p.World()
		if c.Rank() == 1 {
			return mpi.Send(c, []int{7}, 0, 0)
		}
		x := []int{0}
		if _, err := mpi.Recv(c, x, 1, 0); err != nil || x[0] != 7 {
			return fmt.Errorf("received %v, %w", x, err)
		}
		if _, err := mpi.Recv(c, x, 1, 0); !errors.Is(err, mpi.ErrProcFailed) {
			return fmt.Errorf("the second receive: %w", err)
		}
		return nil
	})
}

// TestVirtualDeadlock: ranks that wait for each other fail the world in virtual time as well.
func TestVirtualDeadlock(t *testing.T) {
	o := Options{Virtual: &Cluster{}, Deadlock: 300 * time.Millisecond}
	failures := run(t, 2, o, func(p *mpi.Process) error {
		_, err := mpi.Recv(p.World(), make([]int, 1), 1-p.World().Rank(), 7)
		return err
	})
	if len(failures) != 1 || !errors.Is(failures[0], errDeadlock) {
		t.Errorf("the failures are %v", failures)
	}
}

// TestVirtualFlood: messages beyond the window of two ranks wait for room, and take the time of the link.
func TestVirtualFlood(t *testing.T) {
	const n, bytes = 5000, 1000
	runVirtual(t, 2, 1, exact, func(p *mpi.Process) error {
		c, b := p.World(), make([]byte, bytes)
		for i := range n {
			if c.Rank() == 0 {
				b[i%bytes] = byte(i)
				if err := mpi.Send(c, b, 1, 0); err != nil {
					return err
				}
			} else if _, err := mpi.Recv(c, b, 0, 0); err != nil || b[i%bytes] != byte(i) {
				return fmt.Errorf("message %d: %d, %w", i, b[i%bytes], err)
			}
		}
		if took := nanoseconds(p.Wtime()); c.Rank() == 1 && (took < n*bytes || took > 2*n*bytes) {
			return fmt.Errorf("%d messages of %d bytes took %v", n, bytes, took)
		}
		return nil
	})
}

// TestVirtualPolling: time passes for ranks that poll: in Test and Iprobe, and while immediate collectives are in progress.
func TestVirtualPolling(t *testing.T) {
	var last []time.Duration
	for range 3 {
		times := make([]time.Duration, 4)
		runVirtual(t, 4, 2, exact, func(p *mpi.Process) error {
			c := p.World()
			rank := c.Rank()
			x, sum := []int{rank}, []int{0}
			r, err := mpi.Iallreduce(c, sum, x, mpi.Sum)
			if err != nil {
				return err
			}
			for done := false; !done; {
				if _, done, err = r.Test(); err != nil {
					return err
				}
			}
			if sum[0] != 6 {
				return fmt.Errorf("the sum is %d", sum[0])
			}
			if err := mpi.Send(c, x, (rank+1)%4, 0); err != nil {
				return err
			}
			for found := false; !found; {
				if _, found, err = c.Iprobe((rank+3)%4, 0); err != nil {
					return err
				}
			}
			if _, err := mpi.Recv(c, x, (rank+3)%4, 0); err != nil {
				return err
			}
			times[rank] = nanoseconds(p.Wtime())
			return nil
		})
		if last != nil && !slices.Equal(last, times) || times[0] == 0 {
			t.Errorf("%v and then %v", last, times)
		}
		last = times
	}
}
