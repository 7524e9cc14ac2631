package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

const (
	resourceType = "mpi_hw_resource_type"
	psetName     = "mpi_pset_name"
)

// info returns an Info of alternating keys and values.
func info(words ...string) *mpi.Info {
	i := &mpi.Info{}
	for pair := range slices.Chunk(words, 2) {
		if err := i.Set(pair[0], pair[1]); err != nil {
			panic(err)
		}
	}
	return i
}

func resource(key string) *mpi.Info { return info(resourceType, key) }

// checkMembers checks which ranks are in the new communicator, by their order in it; no ranks means a nil
// communicator.
func checkMembers(p *mpi.Process, c *mpi.Comm, err error, want ...int) error {
	switch {
	case err != nil:
		return err
	case c == nil || len(want) == 0:
		return check(c == nil && len(want) == 0, "rank %d: communicator %v, want ranks %v", p.World().Rank(), c != nil, want)
	}
	return errors.Join(checkProcesses(c, p, want...), checkSum(c), c.Free())
}

// groups returns the expected group of a rank; in "02 1 02 -" rank 3 is in no group, and rank 1 is alone.
func groups(text string, rank int) (want []int) {
	for _, digit := range strings.TrimPrefix(strings.Fields(text)[rank], "-") {
		want = append(want, int(digit-'0'))
	}
	return want
}

// TestSplitTypeKeys: every key of GetHWResourceInfo can be used in a split.
func TestSplitTypeKeys(t *testing.T) {
	top := twoSockets(t)
	bindings := []string{"n0 0,8", "n0 0-15", "n0 2", "n1 0", "n1 1", "n0 0"}
	t.Run("S0-67", func(t *testing.T) {
		bound(t, top, bindings, func(p *mpi.Process) error {
			w := p.World()
			mine, err := p.GetHWResourceInfo()
			if err != nil {
				return err
			}
			seen := map[string]bool{}
			for from := range bindings {
				n := []int{mine.Len()}
				if err := mpi.Bcast(w, n, from); err != nil {
					return err
				}
				for k := range n[0] {
					text := make([]byte, mpi.MaxInfoKey)
					if w.Rank() == from {
						key, err := mine.Nth(k)
						if err != nil {
							return err
						}
						copy(text, key)
					}
					if err := mpi.Bcast(w, text, from); err != nil {
						return err
					}
					key := strings.TrimRight(string(text), "\x00")
					if seen[key] {
						continue
					}
					seen[key] = true
					if err := byKey(p, key, mine); err != nil {
						return err
					}
				}
			}
			return check(len(seen) >= 40, "only %d keys were tried", len(seen))
		})
	})
}

// TestSplitTypeWho checks the groups for each key.
func TestSplitTypeWho(t *testing.T) {
	top := twoSockets(t)
	bindings := []string{"n0 0,8", "n0 0-15", "n0 2", "n1 0", "n1 1", "n0 0"}
	for key, want := range byName(map[string]string{
		"hwloc://Machine":          "0125 0125 0125 34 34 0125",
		"hwloc://Package":          "025 - 025 3 4 025",
		"hwloc://Core":             "05 - 2 3 4 05",
		"hwloc://PU":               "- - 2 3 4 5",
		"ibrun://n0/core/0":        "05 - - - - 05",
		"ibrun://n1/core/0":        "- - - 3 - -",
		"ibrun://n0/rdma/mlx5_0/1": "025 - 025 - - 025",
		"ibrun://rail/0":           "0235 - 0235 0235 - 0235", // over both nodes
		"ibrun://rail/1":           "- - - - 4 -",
		"ibrun://n0/gpu/0":         "025 - 025 - - 025",
		"ibrun://n0/gpu/0/NVIDIA%20H100%2080GB%20HBM3": "025 - 025 - - 025",
		"ibrun://n0/pci/0000:10":                       "025 - 025 - - 025",
		"mpi_shared_memory":                            "0125 0125 0125 34 34 0125",
		"hwloc://core":                                 "- - - - - -", // as spelled, or not at all
		"hwloc://Corexyz":                              "- - - - - -",
		"ibrun://n9/core/0":                            "- - - - - -",
		"":                                             "- - - - - -",
		strings.Repeat("long", 1<<7):                   "- - - - - -",
	}) {
		bound(t, top, bindings, func(p *mpi.Process) error {
			var errs []error
			for _, by := range []mpi.SplitType{mpi.TypeHWGuided, mpi.TypeResourceGuided} {
				c, err := p.World().SplitType(by, 0, resource(key))
				errs = append(errs, checkMembers(p, c, err, groups(want, p.World().Rank())...))
			}
			if err := errors.Join(errs...); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			return nil
		})
	}
}

// byKey splits by a key with both split types: only the ranks whose value of the key is true get a communicator.
func byKey(p *mpi.Process, key string, mine *mpi.Info) error {
	value, _ := mine.Get(key)
	for _, by := range []mpi.SplitType{mpi.TypeHWGuided, mpi.TypeResourceGuided} {
		c, err := p.World().SplitType(by, p.World().Rank(), resource(key))
		if err != nil || (c != nil) != (value == "true") {
			return fmt.Errorf("rank %d: split by %s, which is %q: %v, %w", p.World().Rank(), key, value, c != nil, err)
		}
		if c != nil {
			if err := errors.Join(checkSum(c), c.Free()); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestSplitTypeExample is the second part of the example that the statements are made of.
func TestSplitTypeExample(t *testing.T) {
	t.Run("S0-70", func(t *testing.T) {
		bound(t, twoSockets(t), []string{"n0 1", "n0 0-15", "n0 0,2", "n0 0-1", "n0 3"}, func(p *mpi.Process) error {
			const numa = "hwloc://NUMANode"
			all, err := hardware(p)
			if err != nil {
				return err
			}
			var c *mpi.Comm
			if all[numa] == "true" {
				c, err = p.World().SplitType(mpi.TypeResourceGuided, p.World().Rank(), resource(numa))
			} else {
				c, err = p.World().SplitType(mpi.Undefined, -1, nil)
			}
			return checkMembers(p, c, err, groups("04 - 2 - 04", p.World().Rank())...)
		})
	})
}

// splitCase is a split: the bindings of the ranks, the request of each rank, and the expected groups.
type splitCase struct {
	by       mpi.SplitType
	info     func(rank int) *mpi.Info
	bindings string // separated by ;
	want     string
	chosen   string // by TypeHWUnguided; "" is not checked
}

// splitCases are the rules about missing, unknown and different values.
func splitCases() map[string]splitCase {
	const guided, any, open = mpi.TypeHWGuided, mpi.TypeResourceGuided, mpi.TypeHWUnguided
	none := func(int) *mpi.Info { return nil }
	all := func(words ...string) func(int) *mpi.Info { return func(int) *mpi.Info { return info(words...) } }
	each := func(values ...string) func(int) *mpi.Info {
		return func(r int) *mpi.Info {
			if values[r] == "" {
				return nil
			}
			return resource(values[r])
		}
	}
	return map[string]splitCase{
		"no info":             {guided, none, "n0 0;n0 1", "- -", ""},
		"no key":              {any, all("other", "key"), "n0 0;n0 1", "- -", ""},
		"some without":        {guided, each("", "hwloc://Core", ""), "n0 0;n0 0;n0 0", "- 1 -", ""},
		"unknown at some":     {guided, each("hwloc://Core", "custom", "hwloc://Core"), "n0 0;n0 0;n0 8", "02 - 02", ""},
		"different values":    {any, each("hwloc://PU", "hwloc://Core", "hwloc://PU"), "n0 0;n0 0;n0 0", "02 1 02", ""},
		"not a strict subset": {guided, all(resourceType, "hwloc://Machine"), "n0 0;n0 1", "01 01", ""},
		"shared":              {mpi.TypeShared, none, "n0 0;n1 0;n0 1", "02 1 02", ""},
		"shared with a key":   {mpi.TypeShared, all(resourceType, "hwloc://PU"), "n0 0;n1 0;n0 1", "02 1 02", ""},
		"guided by a set":     {guided, all(psetName, "mpi://WORLD"), "n0 0;n0 0", "- -", ""},
		"the world":           {any, all(psetName, "mpi://WORLD"), "n0 0;n1 0", "01 01", ""},
		"oneself":             {any, all(psetName, "mpi://SELF"), "n0 0;n1 0", "0 1", ""},
		"a set":               {any, all(psetName, "some"), "n0 0;n1 0;n0 0;n0 0", "02 13 02 13", ""},
		"a set and a node":    {any, all(psetName, "some", resourceType, "mpi_shared_memory"), "n0 0;n1 0;n0 0;n0 0", "02 1 02 3", ""},
		"in no set":           {any, all(psetName, "few"), "n0 0;n0 0;n0 0", "- 12 12", ""},
		"unknown set":         {any, all(psetName, "unknown"), "n0 0;n0 0", "- -", ""},
		"set and resource": {any, all(psetName, "mpi://WORLD", resourceType, "hwloc://Core"), "n0 0;n0 8;n0 1;n0 0-1",
			"01 01 2 -", ""},
		"nodes":        {open, all(), "n0 0;n1 0;n0 1", "02 1 02", "hwloc://Machine"},
		"packages":     {open, all(), "n0 0;n0 1;n0 2", "02 1 02", "hwloc://Package"},
		"cores":        {open, all(), "n0 0;n0 8;n0 2", "01 01 2", "hwloc://L2Cache"},
		"threads":      {open, each("overwritten", "overwritten"), "n0 0;n0 8", "0 1", "hwloc://PU"},
		"in no part":   {open, all(), "n0 0;n0 1;n0 0-15", "0 1 -", "hwloc://Package"},
		"no division":  {open, all(), "n0 0;n0 0", "- -", ""},
		"all unbound":  {open, none, "n0 0-15;n0 0-15", "- -", ""},
		"without info": {open, none, "n0 0;n0 1", "0 1", ""},
		"alone":        {open, none, "n0 0", "-", ""},
	}
}

func TestSplitTypeRules(t *testing.T) {
	top := twoSockets(t)
	sets := []mpitest.Pset{{Name: "some", Ranks: []int{0, 2}}, {Name: "some", Ranks: []int{1, 3}}, {Name: "few", Ranks: []int{1, 2}}}
	t.Run("S0-K5", func(t *testing.T) {
		for name, c := range byName(splitCases()) {
			t.Run(name, func(t *testing.T) {
				bindings := strings.Split(c.bindings, ";")
				mpitest.RunWith(t, len(bindings), mpitest.Options{
					Machine: func(rank int) mpitest.Machine { return boundTo(top, bindings[rank]) },
					Psets:   func() []mpitest.Pset { return sets },
				}, func(p *mpi.Process) error {
					want := groups(c.want, p.World().Rank())
					i := c.info(p.World().Rank())
					d, err := p.World().SplitType(c.by, 0, i)
					chosen, _ := i.Get(resourceType)
					if len(want) > 0 && c.chosen != "" && chosen != c.chosen {
						return fmt.Errorf("chosen was %q, want %q", chosen, c.chosen)
					}
					return checkMembers(p, d, err, want...)
				})
			})
		}
	})
	t.Run("S0-K6", func(t *testing.T) {
		// Lower keys are first; for equal keys the lower rank is. No rank is in two groups.
		bound(t, top, []string{"n0 0", "n0 2", "n0 0", "n0 1", "n0 4"}, func(p *mpi.Process) error {
			r := p.World().Rank()
			c, err := p.World().SplitType(mpi.TypeHWGuided, []int{7, -1 << 62, 7, 0, -3}[r], resource("hwloc://Package"))
			return checkMembers(p, c, err, groups("1402 1402 1402 3 1402", r)...)
		})
	})
}

// TestSplitTypeMixed: the ranks ask for different resources, and one asks for an unknown one.
func TestSplitTypeMixed(t *testing.T) {
	bound(t, twoSockets(t), []string{"n0 0", "n0 2", "n0 1", "n0 0", "n0 4", "n0 0-15"}, func(p *mpi.Process) error {
		r := p.World().Rank()
		by := []mpi.SplitType{mpi.TypeShared, mpi.TypeHWUnguided, mpi.TypeHWUnguided, mpi.TypeHWGuided, 17, mpi.TypeResourceGuided}[r]
		c, err := p.World().SplitType(by, 0, resource("mpi_shared_memory"))
		if r == 4 {
			return errors.Join(ofClass(err, mpi.ErrArg), check(c == nil, "a communicator"))
		}
		return checkMembers(p, c, err, groups("035 12 12 035 - 035", r)...)
	})
	var none *mpi.Comm
	if _, err := none.SplitType(mpi.TypeShared, 0, nil); !errors.Is(err, mpi.ErrComm) {
		t.Errorf("of nil: %v", err)
	}
}

// TestSplitTypeMoves: the current binding is used.
func TestSplitTypeMoves(t *testing.T) {
	top := twoSockets(t)
	var step atomic.Int32
	steps := [][]string{{"n0 0", "n0 0", "n0 1"}, {"n0 0", "n0 1", "n0 1"}, {"n0 0-1", "n0 1", "n0 3"}}
	runProcessesOn(t, 3, func(_ context.Context, rank int) (*hw.Topology, []int, error) {
		return top, boundTo(top, steps[step.Load()][rank]).PUs, nil
	}, nil, func(p *mpi.Process) error {
		for i, want := range []string{"01 01 2", "0 12 12", "- 12 12"} {
			if err := p.World().Barrier(); err != nil {
				return err
			}
			step.Store(int32(i))
			if err := p.World().Barrier(); err != nil {
				return err
			}
			c, err := p.World().SplitType(mpi.TypeHWGuided, 0, resource("hwloc://Package"))
			if err := checkMembers(p, c, err, groups(want, p.World().Rank())...); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
		return nil
	})
}

// TestSplitTypeKilled ends a rank at every stage of a split: the others get an error or their communicator, and never
// block.
func TestSplitTypeKilled(t *testing.T) {
	const n, victim = 4, 1
	top := twoSockets(t)
	killed := errors.New("killed by the test")
	random := rand.New(rand.NewPCG(soaktest.Seed(t), 0))
	for round := range 12 {
		var hub atomic.Pointer[mem.Hub]
		var splits atomic.Int32
		last, pause := int32(random.IntN(3)+1), random.IntN(300)
		hardware := func(_ context.Context, rank int) (*hw.Topology, []int, error) {
			if rank == victim && splits.Add(1) == last {
				go func() {
					for range pause {
						runtime.Gosched()
					}
					hub.Load().Fail(victim, killed)
				}()
			}
			return top, []int{rank % 2}, nil
		}
		runProcessesOn(t, n, hardware, &hub, func(p *mpi.Process) error {
			by := []mpi.SplitType{mpi.TypeHWGuided, mpi.TypeHWUnguided, mpi.TypeResourceGuided}[round%3]
			err := p.World().Barrier() // all ranks have left Init when the victim splits
			for err == nil {
				_, err = p.World().SplitType(by, 0, resource("hwloc://Package"))
			}
			if err := ofClass(err, mpi.ErrProcFailed); err != nil {
				return err
			}
			return errDead
		})
	}
}

// errDead ends a rank without Finalize.
var errDead = errors.New("dead")

// runProcesses runs n ranks, of which rank 1 cannot read its machine.
func runProcesses(t *testing.T, n int, broken func(ctx context.Context, rank int) error, f func(p *mpi.Process) error) {
	t.Helper()
	top := twoSockets(t)
	runProcessesOn(t, n, func(ctx context.Context, rank int) (*hw.Topology, []int, error) {
		if rank == 1 {
			return nil, nil, broken(ctx, rank)
		}
		return top, []int{rank}, nil
	}, nil, f)
}

// runProcessesOn runs n ranks of one node over memory of this process, each with its own function to read the
// machine.
func runProcessesOn(
	t *testing.T, n int, hardware func(ctx context.Context, rank int) (*hw.Topology, []int, error), where *atomic.Pointer[mem.Hub],
	f func(p *mpi.Process) error,
) {
	t.Helper()
	hub := mem.NewHub(n)
	if where != nil {
		where.Store(hub)
	}
	nothing := func() error { return nil }
	errs := make([]error, n)
	var ranks sync.WaitGroup
	for rank := range n {
		at := &bootstrap.Process{
			Rank: rank, Size: n, Oversubscribed: true, Started: nothing, Finalized: nothing, NodeName: "n0",
			Open: func(ctx context.Context, c *fabric.Config, _ bootstrap.Thresholds) (fabric.Domain, error) {
				return hub.Transport().Open(ctx, c)
			},
			Address:  func(int) []byte { return nil },
			Nodes:    func() ([]int, error) { return make([]int, n), nil },
			Hardware: func() (*hw.Topology, []int, error) { return hardware(t.Context(), rank) },
		}
		ranks.Go(func() {
			p, err := mpi.Init(bootstrap.WithProcess(t.Context(), at), nil)
			if err == nil {
				if err = f(p); err == nil {
					err = p.Finalize()
				}
			}
			if err != errDead {
				errs[rank] = err
			}
		})
	}
	ranks.Wait()
	for rank, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", rank, err)
		}
	}
}
