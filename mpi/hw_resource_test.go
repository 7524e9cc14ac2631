package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/hw/hwtest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// machine reads one of the machines that package hw is tested with.
func machine(t *testing.T, name string) *hw.Topology {
	t.Helper()
	top, err := hw.Read(hwtest.Tree(t, "../hw/testdata/machines/"+name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// twoSockets has packages with the even and the odd PUs; 0 and 8 are one core.
func twoSockets(t *testing.T) *hw.Topology {
	top := machine(t, "two-sockets")
	top.RDMA = nil
	for i, pci := range []string{"0000:10:00.0", "0000:80:00.0"} {
		top.RDMA = append(top.RDMA, hw.RDMADevice{Name: fmt.Sprint("mlx5_", i), PCI: pci, NUMA: i,
			Ports: []hw.RDMAPort{{Number: 1, State: hw.PortActive}}})
	}
	return top
}

// bound runs a rank for each binding, "n0 0-3" being PUs 0 to 3 of the node n0.
func bound(t *testing.T, top *hw.Topology, bindings []string, f func(p *mpi.Process) error) {
	t.Helper()
	mpitest.RunWith(t, len(bindings), mpitest.Options{Machine: func(rank int) mpitest.Machine {
		return boundTo(top, bindings[rank])
	}}, f)
}

func boundTo(top *hw.Topology, binding string) mpitest.Machine {
	name, list, _ := strings.Cut(binding, " ")
	return mpitest.Machine{Name: name, Top: top, PUs: pus(list)}
}

func pus(list string) (ids []int) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		lo, err := strconv.Atoi(first)
		hi := lo
		if isRange && err == nil {
			hi, err = strconv.Atoi(last)
		}
		if err != nil {
			panic(err)
		}
		for id := lo; id <= hi; id++ {
			ids = append(ids, id)
		}
	}
	return ids
}

// hardware returns the hardware info of a process as a map.
func hardware(p *mpi.Process) (map[string]string, error) {
	i, err := p.GetHWResourceInfo()
	if err != nil {
		return nil, err
	}
	return maps.Collect(i.All()), nil
}

// checkHardware checks the values of some keys; "" means that the key is missing.
func checkHardware(p *mpi.Process, want map[string]string) error {
	all, err := hardware(p)
	for key, value := range want {
		err = errors.Join(err, check(all[key] == value, "rank %d: %s=%q, want %q", p.World().Rank(), key, all[key], value))
	}
	return err
}

// oneRank runs a statement about one rank on this machine, with the affinity that it has, and on another.
func oneRank(t *testing.T, top *hw.Topology, all map[string]func(p *mpi.Process) error) {
	for id, f := range all {
		t.Run(id, func(t *testing.T) {
			t.Run("here", func(t *testing.T) { mpitest.Run(t, 1, f) })
			t.Run("elsewhere", func(t *testing.T) { bound(t, top, []string{"n0 0,8"}, f) })
		})
	}
}

var resourceKey = regexp.MustCompile(`^(hwloc://(Machine|Package|NUMANode|L[123]Cache|Core|PU)|` +
	`ibrun://rail/\d+|ibrun://[^/]+/((machine|package|numa|l[123]|core|pu)/\d+|gpu/\d+(/[^/]+)?|rdma/\w+/\d+|` +
	`pci/[0-9a-f]{4,}:[0-9a-f]{2}))$`)

func TestHWResourceInfo(t *testing.T) {
	eachKey := func(f func(key, value string) error) func(p *mpi.Process) error {
		return func(p *mpi.Process) error {
			all, err := hardware(p)
			for key, value := range all {
				err = errors.Join(err, f(key, value))
			}
			return errors.Join(err, check(len(all) >= 8, "no more than %v", all))
		}
	}
	oneRank(t, twoSockets(t), map[string]func(p *mpi.Process) error{
		"S0-51": func(p *mpi.Process) error {
			a, err := p.GetHWResourceInfo()
			b, err2 := p.GetHWResourceInfo()
			if err := errors.Join(err, err2); err != nil {
				return err
			}
			before, _ := b.Get("hwloc://Machine")
			err = errors.Join(a.Set("hwloc://Machine", "edited"), a.Delete("hwloc://PU"))
			after, _ := b.Get("hwloc://Machine")
			_, there := b.Get("hwloc://PU")
			return errors.Join(err, check(a != b && before == "true" && after == before && there, "edits of one show in the other"))
		},
		"S0-53": eachKey(func(key, _ string) error { return check(resourceKey.MatchString(key), "key %q", key) }),
		"S0-59": func(p *mpi.Process) error {
			i, err := p.GetHWResourceInfo()
			if err != nil {
				return err
			}
			d := i.Dup()
			err = errors.Join(i.Delete("hwloc://PU"), i.Set("mine", "1"))
			v, ok := i.Get("mine")
			return errors.Join(err, check(ok && v == "1" && i.Len() == d.Len(), "%q of %d keys, %d in the duplicate", v, i.Len(), d.Len()))
		},
		"S0-60": eachKey(func(key, _ string) error {
			u, err := url.Parse(key)
			return errors.Join(err, check(err == nil && u.IsAbs() && u.Host != "", "%q is not a URI", key))
		}),
		"S0-61": eachKey(func(key, _ string) error {
			provider, rest, found := strings.Cut(key, "://")
			return check(found && rest != "" && (provider == "hwloc" || provider == "ibrun"), "key %q", key)
		}),
		"S0-62": eachKey(func(key, _ string) error {
			return check(!strings.HasPrefix(strings.ToLower(key), "mpi://"), "key %q", key)
		}),
		// The example's first part: number of keys, each key, each value, and the one that is looked for.
		"S0-69": func(p *mpi.Process) error {
			i, err := p.GetHWResourceInfo()
			if err != nil {
				return err
			}
			found := 0
			for n := range i.Len() {
				key, err := i.Nth(n)
				value, ok := i.Get(key)
				if err != nil || !ok || len(value)+1 > 6 || len(key) > mpi.MaxInfoKey {
					return fmt.Errorf("key %d: %q=%q, %v", n, key, value, err)
				}
				if key == "hwloc://NUMANode" {
					found++
				}
			}
			return check(found == 1, "hwloc://NUMANode is there %d times", found)
		},
	})
}

// TestHWResourceHere compares the info with the topology that package hw reads from this machine.
func TestHWResourceHere(t *testing.T) {
	t.Run("S0-52", func(t *testing.T) {
		mpitest.Run(t, 1, func(p *mpi.Process) error {
			top, err := hw.Local()
			allowed, err2 := hw.ProcessAffinity()
			host, err3 := os.Hostname()
			if err := errors.Join(err, err2, err3); err != nil {
				return err
			}
			want := map[string]string{"hwloc://Machine": "true", "ibrun://" + host + "/machine/0": "true"}
			for _, pu := range top.PUs {
				value := ""
				if slices.Contains(allowed, pu.ID) {
					value = fmt.Sprint(len(allowed) == 1)
				}
				want[fmt.Sprintf("ibrun://%s/pu/%d", host, pu.ID)] = value
			}
			for i := range top.RDMACandidates() {
				c := top.RDMACandidates()[i]
				all, err := hardware(p)
				key := fmt.Sprintf("ibrun://%s/rdma/%s/%d", host, c.Name, c.Port)
				if err := errors.Join(err, check(all[key] != "", "%s is not there", key)); err != nil {
					return err
				}
			}
			return checkHardware(p, want)
		})
	})
}

// restricted is an independent implementation of whether PUs are within one instance, from the position of each PU.
func restricted(top *hw.Topology, kind string, mask []int) bool {
	seen := map[int]bool{}
	for _, pu := range top.PUs {
		if !slices.Contains(mask, pu.ID) {
			continue
		}
		at := map[string]int{"Machine": 0, "Package": pu.Package, "NUMANode": pu.Node, "L3Cache": pu.L3,
			"L2Cache": pu.Core, "L1Cache": pu.Core, "Core": pu.Core, "PU": pu.ID}
		seen[at[kind]] = true
	}
	return len(seen) == 1
}

// TestHWResourceValues tries every binding of a machine that is a part of eight PUs.
func TestHWResourceValues(t *testing.T) {
	top := twoSockets(t)
	t.Run("S0-54", func(t *testing.T) {
		mask := []int{0}
		mpitest.RunWith(t, 1, mpitest.Options{Machine: func(int) mpitest.Machine {
			return mpitest.Machine{Name: "n0", Top: top, PUs: mask}
		}}, func(p *mpi.Process) error {
			for bits := 1; bits < 256; bits++ {
				mask = nil
				for i, pu := range []int{0, 1, 2, 3, 8, 9, 10, 11} {
					if bits>>i&1 == 1 {
						mask = append(mask, pu)
					}
				}
				want := map[string]string{}
				for _, kind := range hw.ResourceTypes() {
					want["hwloc://"+kind] = fmt.Sprint(restricted(top, kind, mask))
				}
				if err := checkHardware(p, want); err != nil {
					return fmt.Errorf("bound to %v: %w", mask, err)
				}
			}
			return nil
		})
	})
	t.Run("S0-55", func(t *testing.T) {
		for binding, want := range map[string]string{
			"n0 2":      "PU Core L1Cache L2Cache L3Cache NUMANode Package Machine",
			"n0 2,10":   "Core L1Cache L2Cache L3Cache NUMANode Package Machine", // both threads of a core
			"n0 2,4":    "L3Cache NUMANode Package Machine",                      // two cores of a package
			"n0 0-1":    "Machine",                                               // of both packages
			"n0 0-15":   "Machine",
			"n0 1,3,99": "", // a PU that the machine does not list
		} {
			bound(t, top, []string{binding}, func(p *mpi.Process) error {
				values := map[string]string{}
				for _, kind := range hw.ResourceTypes() {
					values["hwloc://"+kind] = fmt.Sprint(slices.Contains(strings.Fields(want), kind))
				}
				return checkHardware(p, values)
			})
		}
	})
	t.Run("instances and devices", func(t *testing.T) {
		bound(t, top, []string{"a%b/c 2,4", "n0 0-1"}, func(p *mpi.Process) error {
			return checkHardware(p, []map[string]string{{
				"ibrun://a%25b%2Fc/core/1": "false", "ibrun://a%25b%2Fc/core/0": "", "ibrun://a%25b%2Fc/package/0": "true",
				"ibrun://a%25b%2Fc/package/1": "", "ibrun://a%25b%2Fc/rdma/mlx5_0/1": "true", "ibrun://rail/0": "true",
				"ibrun://a%25b%2Fc/rdma/mlx5_1/1": "false", "ibrun://rail/1": "false",
				"ibrun://a%25b%2Fc/gpu/0": "true", "ibrun://a%25b%2Fc/gpu/0/NVIDIA%20H100%2080GB%20HBM3": "true",
				"ibrun://a%25b%2Fc/gpu/2":       "false",
				"ibrun://a%25b%2Fc/pci/0000:10": "true", "ibrun://a%25b%2Fc/pci/0000:80": "false",
			}, {
				"ibrun://n0/numa/0": "false", "ibrun://n0/numa/1": "false", "ibrun://rail/0": "false", "ibrun://rail/1": "false",
				"ibrun://n0/gpu/0": "false", "ibrun://n0/pci/0000:10": "false", "ibrun://n0/pu/1": "false", "ibrun://n0/pu/2": "",
			}}[p.World().Rank()])
		})
	})
}

// TestHWResourceRanks checks the info of different ranks.
func TestHWResourceRanks(t *testing.T) {
	top := twoSockets(t)
	// distinct counts the different infos of the ranks.
	distinct := func(bindings []string, want int) func(t *testing.T) {
		return func(t *testing.T) {
			var mu sync.Mutex
			told := map[string]bool{}
			bound(t, top, bindings, func(p *mpi.Process) error {
				all, err := hardware(p)
				mu.Lock()
				defer mu.Unlock()
				told[fmt.Sprint(all)] = true // maps are printed in order
				return err
			})
			if len(told) != want {
				t.Errorf("%d different answers, want %d: %v", len(told), want, slices.Sorted(maps.Keys(told)))
			}
		}
	}
	t.Run("S0-57", func(t *testing.T) {
		t.Run("cores", distinct([]string{"n0 0,8", "n0 2,10", "n0 1,9"}, 3))
		t.Run("sets of cores", distinct([]string{"n0 0,2", "n0 4,6", "n0 0,4", "n0 0-15"}, 4))
		t.Run("nodes", distinct([]string{"n0 0-15", "n1 0-15"}, 2))
	})
	t.Run("S0-58", distinct([]string{"n0 0-15", "n0 0-15", "n0 0-15"}, 1))
	t.Run("S0-50", func(t *testing.T) {
		done := make(chan struct{})
		mpitest.Run(t, 3, func(p *mpi.Process) error {
			if p.World().Rank() != 1 {
				<-done // outside MPI
				return nil
			}
			defer close(done)
			_, err := p.GetHWResourceInfo()
			return err
		})
	})
}

// TestHWResourceMoves changes the binding and then the machine of a rank that runs.
func TestHWResourceMoves(t *testing.T) {
	t.Run("S0-68", func(t *testing.T) {
		t.Attr("changes", "bindings, the machine")
		here := boundTo(twoSockets(t), "n0 2")
		mpitest.RunWith(t, 1, mpitest.Options{Machine: func(int) mpitest.Machine { return here }}, func(p *mpi.Process) error {
			errs := []error{checkHardware(p, map[string]string{"hwloc://Core": "true", "ibrun://n0/core/1": "true"})}
			here.PUs = pus("2-4")
			errs = append(errs, checkHardware(p, map[string]string{
				"hwloc://Core": "false", "ibrun://n0/core/1": "false", "hwloc://Package": "false"}))
			here.PUs = pus("4")
			errs = append(errs,
				checkHardware(p, map[string]string{"hwloc://Core": "true", "ibrun://n0/core/1": "", "ibrun://n0/core/2": "true"}))
			here.Top = machine(t, "dies")
			errs = append(errs, checkHardware(p, map[string]string{"ibrun://n0/pu/4": "true"}))
			return errors.Join(errs...)
		})
	})
}

// TestHWResourceFails: a machine that cannot be read is an error, and a split with it one at that rank only.
func TestHWResourceFails(t *testing.T) {
	broken := func(ctx context.Context, rank int) error {
		return fmt.Errorf("rank %d cannot read: %w", rank, errors.ErrUnsupported)
	}
	runProcesses(t, 3, broken, func(p *mpi.Process) error {
		bad := p.World().Rank() == 1
		_, err := p.GetHWResourceInfo()
		errs := []error{check(errors.Is(err, errors.ErrUnsupported) == bad, "rank %d: %v", p.World().Rank(), err)}
		for _, by := range []mpi.SplitType{mpi.TypeHWGuided, mpi.TypeResourceGuided, mpi.TypeHWUnguided} {
			info := resource("hwloc://Machine")
			c, err := p.World().SplitType(by, 0, info)
			errs = append(errs, check(errors.Is(err, errors.ErrUnsupported) == bad, "%d: %v", by, err))
			switch {
			case bad:
				errs = append(errs, check(c == nil, "%d: a communicator", by), ofClass(err, mpi.ErrOther))
			case err == nil:
				errs = append(errs, checkProcesses(c, p, 0, 2), c.Free())
			}
		}
		return errors.Join(errs...)
	})
}
