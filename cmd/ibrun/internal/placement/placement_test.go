package placement

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/hw"
)

// twoPackageMachine is a machine of two packages with two NUMA nodes each. A NUMA node has one NIC and two level-3 caches with
// two cores of two threads. PUs 0 to 15 are the first threads of the 16 cores, 16 to 31 the second.
func twoPackageMachine() Machine {
	return Machine{Name: "n", Top: shape{2, 2, 2, 2, 2, 1}.topology()}
}

// boundPUList returns the PUs that each rank is bound to, - for a rank that is not bound.
func boundPUList(p *Plan) string {
	var words []string
	for _, r := range p.Ranks {
		word := "-"
		if r.Bound {
			word = hw.FormatList(r.PUs)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		flags string
		ranks int
		want  string
	}{
		{"", 1, "-"},
		{"", 2, "0-7,16-23 8-15,24-31"},
		{"", 3, "0-4,16-20 5-9,21-25 10-14,26-30"},
		{"", 16, "0,16 1,17 2,18 3,19 4,20 5,21 6,22 7,23 8,24 9,25 10,26 11,27 12,28 13,29 14,30 15,31"},
		{"map-by=slot bind-to=core", 2, "0,16 8,24"},
		{"bind-to=none", 2, "- -"},
		{"map-by=core", 3, "0,16 1,17 2,18"},
		{"map-by=core", 17, "0 16 17 18 19 20 21 22 23 8 9 10 11 12 13 14 15"},
		{"map-by=core", 33, strings.TrimSpace(strings.Repeat("- ", 33))},
		{"map-by=hwthread", 3, "0 16 1"},
		{"map-by=l3cache", 3, "0-1,16-17 2-3,18-19 4-5,20-21"},
		{"map-by=l2cache", 2, "0,16 1,17"},
		{"map-by=l1cache bind-to=l3", 2, "0-1,16-17 0-1,16-17"},
		{"map-by=numa", 4, "0-3,16-19 4-7,20-23 8-11,24-27 12-15,28-31"},
		{"map-by=numa", 6, "0-1,16-17 4-5,20-21 8-11,24-27 12-15,28-31 2-3,18-19 6-7,22-23"},
		{"map-by=socket", 2, "0-7,16-23 8-15,24-31"},
		{"map-by=package bind-to=numa cpus-per-rank=2", 2, "0-3,16-19 8-11,24-27"},
		{"map-by=package bind-to=core", 2, "0,16 8,24"},
		{"map-by=core:PE=2", 2, "0-1,16-17 2-3,18-19"},
		{"offset=15", 2, "15 31"},
		{"offset=2", 2, "2,18 3,19"},
		{"offset=31 map-by=hwthread", 1, "31"},
		{"offset=12 bind-to=core", 5, "12 28 29 14 15"},
		{"offset=15", 1, "15,31"},
		{"offset=15", 3, "15,31 15,31 15,31"},
		{"offset=14 bind-to=core", 5, "14-15,30-31 14-15,30-31 14-15,30-31 14-15,30-31 14-15,30-31"},
		{"map-by=package:PE=3", 3, "0-2,16-18 8-10,24-26 3-5,19-21"},
		{"map-by=package:PE=3 bind-to=hwthread", 2, "0-1,16 8-9,24"},
		{"map-by=ppr:1:package", 2, "0-7,16-23 8-15,24-31"},
		{"map-by=ppr:2:numa", 5, "0-1,16-17 2-3,18-19 4-5,20-21 6-7,22-23 8-11,24-27"},
		{"npersocket=2", 4, "0-3,16-19 4-7,20-23 8-11,24-27 12-15,28-31"},
		{"ppn=2", 2, "0-7,16-23 8-15,24-31"},
		{"cpus-per-rank=4", 3, "0-3,16-19 4-7,20-23 8-11,24-27"},
		{"tpp=4 offset=1", 2, "4-7,20-23 8-11,24-27"},
		{"offset=14 bind-to=core", 2, "14,30 15,31"},
		{"bind-to=core:2", 2, "0-1,16-17 2-3,18-19"},
		{"bind-to=hwthread", 2, "0 8"},
		{"bind-to=node", 2, "0-31 0-31"},
		{"map-by=device", 5, "0-1,16-17 4-7,20-23 8-11,24-27 12-15,28-31 2-3,18-19"},
		{"map-by=device=mlx5_2", 2, "8-9,24-25 10-11,26-27"},
		{"map-by=device bind-to=device", 1, "0-3,16-19"},
		{"cpu-bind=verbose,ldoms", 2, "0-7,16-23 8-15,24-31"},
		{"distribution=block:cyclic", 2, "0-7,16-23 8-15,24-31"},
		{"map-by=package", 40, strings.TrimSpace(strings.Repeat("0-7,16-23 8-15,24-31 ", 20))},
		{"", 40, strings.TrimSpace(strings.Repeat("- ", 40))},
		{"bind-to=core", 40, strings.TrimSpace(strings.Repeat("- ", 40))},
	} {
		plan, err := NewPlan([]Machine{twoPackageMachine()}, c.ranks, policy(t, strings.Fields(c.flags)...))
		if err != nil {
			t.Errorf("%s, %d ranks: %v", c.flags, c.ranks, err)
			continue
		}
		if got := boundPUList(plan); got != c.want {
			t.Errorf("%s, %d ranks:\n got %s\nwant %s", c.flags, c.ranks, got, c.want)
		}
		for i, r := range plan.Ranks {
			if r.Rank != i || len(r.PUs) == 0 {
				t.Errorf("%s, %d ranks: rank %d is %+v", c.flags, c.ranks, i, r)
			}
		}
	}
}

// A plan uses only PUs of the mask, and cores outside the mask are not counted.
func TestMask(t *testing.T) {
	m := twoPackageMachine()
	m.Allowed = []int{2, 3, 8, 24, 9}
	for flags, want := range map[string]string{
		"map-by=numa":                 "2-3 8-9,24",
		"map-by=core":                 "2 3",
		"map-by=package bind-to=numa": "2-3 8-9,24",
		"map-by=l3":                   "2-3 8-9,24",
		"bind-to=package":             "2-3 8-9,24",
		"map-by=device":               "2-3 8-9,24",
	} {
		plan, err := NewPlan([]Machine{m}, 2, policy(t, strings.Fields(flags)...))
		if err != nil || boundPUList(plan) != want {
			t.Errorf("%s: %v, %v; want %s", flags, plan, err, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	bare := twoPackageMachine()
	bare.Top = &hw.Topology{Allowed: []int{0, 1}, PUs: []hw.PU{{ID: 0, Node: -1}, {ID: 1, Core: 1, Node: -1}}}
	masked := twoPackageMachine()
	masked.Allowed = []int{0}
	apart := twoPackageMachine()
	apart.Top.Allowed, apart.Allowed = []int{}, nil
	apart.Top.Affinity, apart.Top.Cgroup = []int{0, 1}, &hw.Cgroup{Path: "/job", PUs: []int{4, 5}}
	for _, c := range []struct {
		m     Machine
		flags string
		ranks int
		kind  error
		want  string
	}{
		{twoPackageMachine(), "map-by=ppr:1:package", 3, ErrNoSlots,
			"3 ranks requested, but 1 on each package (the node has 2) allow only 2"},
		{twoPackageMachine(), "ppn=2 map-by=node", 3, ErrNoSlots, "2 on each of 1 nodes allow only 2"},
		{twoPackageMachine(), "ppn=2", 3, ErrNoSlots, "2 on each of 1 nodes allow only 2"},
		{twoPackageMachine(), "cpus-per-rank=9", 2, ErrNoSlots, "2 ranks need 9 cores each, but the node has only 16"},
		{twoPackageMachine(), "map-by=numa:PE=3", 6, ErrNoSlots, "2 ranks need 3 cores each, but numa 0 has only 4"},
		{twoPackageMachine(), "offset=16", 1, ErrNoSlots, "the node has 16 cores, and --offset skips 16"},
		{twoPackageMachine(), "map-by=slot:NOOVERSUBSCRIBE", 33, ErrNoSlots, "33 ranks requested, but the node has only 32 cores"},
		{twoPackageMachine(), "offset=1 map-by=numa", 1, ErrNoSlots, "--offset counts slots and cannot be combined with --map-by numa"},
		{twoPackageMachine(), "bind-to=device", 2, ErrNoObject, "--map-by device"},
		{twoPackageMachine(), "map-by=gpu", 2, ErrNoObject, "this machine has no compute GPU"},
		{twoPackageMachine(), "map-by=device=mlx5_9", 2, ErrNoObject, "no device mlx5_9"},
		{masked, "map-by=device=mlx5_3", 1, ErrNoObject, "none of the allowed PUs 0 is near mlx5_3"},
		{Machine{Top: twoPackageMachine().Top, Allowed: []int{}}, "", 1, ErrNoObject, "allow no PU of 0-31"},
		{apart, "map-by=numa", 1, ErrNoObject, `allow no PU of 0-31; the affinity mask is "0-1"; cgroup /job allows "4-5"`},
		{bare, "map-by=numa", 2, ErrNoObject, "does not report the NUMA node of PU 0"},
		{bare, "map-by=l2cache", 2, ErrNoObject, "does not report the l2cache of PU 0"},
		{bare, "map-by=device", 2, ErrNoObject, "no RDMA device with"},
		{twoPackageMachine(), "", 0, ErrNoSlots, "0 ranks"},
	} {
		plan, err := NewPlan([]Machine{c.m}, c.ranks, policy(t, strings.Fields(c.flags)...))
		if !errors.Is(err, c.kind) {
			t.Errorf("%s, %d ranks: %v, %v; want %v", c.flags, c.ranks, plan, err, c.kind)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %d ranks: %v; want one with %q", c.flags, c.ranks, err, c.want)
		}
	}
}

// TestNodes checks which node each rank is on.
func TestNodes(t *testing.T) {
	for _, c := range []struct {
		flags        string
		nodes, ranks int
		want         string
	}{
		{"", 2, 4, "0 0 1 1"},
		{"", 3, 4, "0 0 1 2"},
		{"", 3, 2, "0 1"},
		{"map-by=node", 2, 4, "0 1 0 1"},
		{"distribution=cyclic", 3, 4, "0 1 2 0"},
		{"ppn=2", 3, 4, "0 0 1 1"},
		{"map-by=numa", 2, 4, "0 0 1 1"},
		{"ppn=3 map-by=numa", 2, 4, "0 0 0 1"},
		{"map-by=ppr:3:node", 2, 4, "0 0 0 1"},
		{"ppn=3 map-by=node", 2, 4, "0 1 0 1"},
	} {
		p := policy(t, strings.Fields(c.flags)...)
		got, err := p.MapToNodes(make([]string, c.nodes), nil, c.ranks)
		if s := strings.Trim(fmt.Sprint(got), "[]"); err != nil || s != c.want {
			t.Errorf("%s, %d ranks on %d nodes: %s, %v; want %s", c.flags, c.ranks, c.nodes, s, err, c.want)
		}
	}
}

// A node computes for its own ranks the same placement as the plan of the whole job.
func TestNodesAgree(t *testing.T) {
	testAgree(t, []Machine{twoPackageMachine(), twoPackageMachine(), twoPackageMachine()}, 12)
	testAgree(t, cluster(), 1024)
}

func testAgree(t *testing.T, machines []Machine, ranks int) {
	for _, flags := range []string{"", "map-by=node", "map-by=numa", "map-by=device", "map-by=core bind-to=l3"} {
		p := policy(t, strings.Fields(flags)...)
		plan, err := NewPlan(machines, ranks, p)
		if err != nil {
			t.Fatal(err)
		}
		for k, m := range machines {
			var mine []int
			for _, r := range plan.Ranks {
				if r.Node == k {
					mine = append(mine, r.Rank)
				}
			}
			alone, _, err := p.BindRanks(m, mine)
			if err != nil {
				t.Fatal(err)
			}
			for i, rank := range mine {
				alone[i].Node = k
				if !reflect.DeepEqual(alone[i], plan.Ranks[rank]) {
					t.Errorf("%s: node %d says %+v, the plan %+v", flags, k, alone[i], plan.Ranks[rank])
				}
			}
		}
	}
}

// Ranks get the memory and the NIC near them, and equally near NICs get equally many ranks.
func TestNearby(t *testing.T) {
	top := shape{2, 1, 1, 4, 1, 2}.topology() // PUs 0-3 and 4-7, with two NICs each
	plan, err := NewPlan([]Machine{{Name: "n", Top: top}}, 8, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	var nics []string
	for i, r := range plan.Ranks {
		nics = append(nics, r.NIC.Name)
		if want := []int{i / 4}; !slices.Equal(r.Memory, want) {
			t.Errorf("rank %d has memory of nodes %v, want %v", i, r.Memory, want)
		}
	}
	if want := []string{"mlx5_0", "mlx5_1", "mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_2", "mlx5_3"}; !slices.Equal(nics,
		want) {
		t.Errorf("NICs %v, want %v", nics, want)
	}
	if len(plan.Notes) > 0 {
		t.Errorf("notes %q", plan.Notes)
	}

	top.RDMA = top.RDMA[:2]
	plan, err = NewPlan([]Machine{{Name: "n", Top: top}}, 2, Policy{})
	if err != nil || len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0],
		"rank 1 on PUs 4-7 is in another package than mlx5_1:1") {
		t.Errorf("notes %q, %v; want one about rank 1", plan.Notes, err)
	}

	top.RDMA[0].NUMA, top.RDMA[0].LocalPUs = -1, nil // a NIC at an unknown location is not used if another is near
	plan, err = NewPlan([]Machine{{Name: "n", Top: top}}, 4, Policy{})
	if err != nil || plan.Ranks[0].NIC.Name != "mlx5_1" || plan.Ranks[1].NIC.Name != "mlx5_1" {
		t.Errorf("%+v, %v; want ranks 0 and 1 next to mlx5_1", plan, err)
	}

	top.Cgroup = &hw.Cgroup{Nodes: []int{1}}
	plan, err = NewPlan([]Machine{{Name: "n", Top: top}}, 2, Policy{})
	if err != nil || plan.Ranks[0].Memory != nil || !slices.Equal(plan.Ranks[1].Memory, []int{1}) {
		t.Errorf("%+v, %v; want no memory of node 0", plan, err)
	}
}

// A topology that was read with OnlyPUs is sufficient except for small caches and devices.
func TestLean(t *testing.T) {
	full := twoPackageMachine()
	lean := Machine{Name: "n", Top: &hw.Topology{PUs: full.Top.PUs}, Allowed: full.Top.Allowed}
	for _, flags := range []string{
		"", "map-by=numa", "map-by=package bind-to=l3cache", "map-by=l3cache", "map-by=core bind-to=hwthread", "ppn=5",
	} {
		p := policy(t, strings.Fields(flags)...)
		a, err := NewPlan([]Machine{full}, 5, p)
		if err != nil {
			t.Fatal(err)
		}
		b, err := NewPlan([]Machine{lean}, 5, p)
		if err != nil || boundPUList(a) != boundPUList(b) || !slices.EqualFunc(a.Ranks, b.Ranks, func(x, y Rank) bool {
			return slices.Equal(x.Memory, y.Memory)
		}) {
			t.Errorf("%s: %s, %v; want %s", flags, boundPUList(b), err, boundPUList(a))
		}
	}
}

func TestReport(t *testing.T) {
	plan, err := NewPlan([]Machine{twoPackageMachine()}, 3, policy(t, "map-by=package:PE=3", "bind-to=core"))
	if err != nil {
		t.Fatal(err)
	}
	want := `rank 0 on n bound to package[0][core:0-2], PUs 0-2,16-18, memory of NUMA node 0, mlx5_0:1
rank 1 on n bound to package[1][core:0-2], PUs 8-10,24-26, memory of NUMA node 2, mlx5_2:1
rank 2 on n bound to package[0][core:3-5], PUs 3-5,19-21, memory of NUMA nodes 0-1, mlx5_1:1
`
	if got := plan.Report(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	plan, err = NewPlan([]Machine{twoPackageMachine()}, 1, policy(t, "map-by=hwthread:PE=3"))
	if err != nil || !strings.Contains(plan.Report(), "package[0][core:0][hwt:2], PUs 0-1,16,") {
		t.Errorf("%v, %s", err, plan.Report())
	}
}

// A note reports each deviation from the requested placement.
func TestNotes(t *testing.T) {
	for flags, want := range map[string]string{
		"bind-to=core":         "more ranks than cores (17 on 16 of the node): each is bound to a hardware thread",
		"map-by=l2 bind-to=l3": "",
		"":                     "",
	} {
		plan, err := NewPlan([]Machine{twoPackageMachine()}, 17, policy(t, strings.Fields(flags)...))
		if got := strings.Join(plan.Notes, "; "); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", flags, got, err, want)
		}
	}
}

func TestSlots(t *testing.T) {
	for flags, want := range map[string]int{
		"": 16, "map-by=hwthread": 32, "cpus-per-rank=4": 4, "map-by=ppr:2:numa": 8, "ppn=3": 3, "offset=10": 6,
		"map-by=numa": 16,
	} {
		p := policy(t, strings.Fields(flags)...)
		if got, err := p.Slots(twoPackageMachine()); err != nil || got != want {
			t.Errorf("%s: %d slots, %v; want %d", flags, got, err, want)
		}
	}
	for _, c := range []struct {
		flags string
		quota float64
		want  int
	}{
		{"", 100, 16}, {"", 16, 16}, {"", 3.9, 3}, {"", 0.5, 1}, {"cpus-per-rank=4", 9, 2}, {"cpus-per-rank=4", 2, 1}, {"ppn=3", 1, 3},
	} {
		m := twoPackageMachine()
		m.Quota = c.quota
		p := policy(t, strings.Fields(c.flags)...)
		if got, err := p.Slots(m); err != nil || got != c.want {
			t.Errorf("%q with a quota of %v: %d slots, %v; want %d", c.flags, c.quota, got, err, c.want)
		}
	}
	p := policy(t, "cpus-per-rank=17")
	if got, err := p.Slots(twoPackageMachine()); !errors.Is(err, ErrNoSlots) {
		t.Errorf("17 cores a rank: %d slots, %v", got, err)
	}
}

// cluster returns 16 nodes of 256 cores and 16 NICs.
func cluster() (machines []Machine) {
	for i := range 16 {
		machines = append(machines, Machine{Name: fmt.Sprint("node", i), Top: shape{2, 4, 4, 8, 1, 2}.topology()})
	}
	return machines
}

// BenchmarkPlace places 1,024 ranks.
func BenchmarkPlace(b *testing.B) {
	machines := cluster()
	for _, flags := range []string{"", "map-by=node", "map-by=package bind-to=numa", "map-by=numa", "map-by=l3cache bind-to=core",
		"map-by=l2cache", "map-by=core", "map-by=hwthread", "map-by=device", "map-by=ppr:8:numa", "bind-to=none"} {
		p := policy(b, strings.Fields(flags)...)
		b.Run(flags, func(b *testing.B) {
			for b.Loop() {
				if _, err := NewPlan(machines, 1024, p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A rank is oversubscribed if its PUs have more ranks than there are PUs, whatever the other ranks are bound to.
func TestOversubscribed(t *testing.T) {
	for want, ranks := range map[string][][]int{
		"[false]":             {{0, 1}},
		"[false false]":       {{0, 1}, {2, 3}},
		"[false false false]": {{0, 1, 2}, {0, 1, 2}, {0, 1, 2}},
		"[true true true]":    {{0, 1}, {0, 1}, {0, 1}},
		"[true true false]":   {{0}, {0, 1}, {2}},
	} {
		var list []Rank
		for _, pus := range ranks {
			list = append(list, Rank{PUs: pus})
		}
		if got := fmt.Sprint(Oversubscribed(list)); got != want {
			t.Errorf("%v: %s, want %s", ranks, got, want)
		}
	}
}

// TestVariables checks the variables that select a rank's devices in other libraries.
func TestVariables(t *testing.T) {
	m := twoPackageMachine()
	m.Top.GPUs = []hw.Device{{PCI: "0000:c1:00.0", ID: "10de:2330"}, {PCI: "0000:01:00.0", ID: "1002:74a1"},
		{PCI: "10000:01:00.0", ID: "10de:2330"}, {PCI: "0000:41:00.0", ID: "10de:2330"}, {PCI: "0000:42:00.0", ID: "8086:0bd5"}}
	for pci, want := range map[string]string{
		"0000:c1:00.0":  "CUDA_VISIBLE_DEVICES=1 CUDA_DEVICE_ORDER=PCI_BUS_ID",
		"10000:01:00.0": "CUDA_VISIBLE_DEVICES=2 CUDA_DEVICE_ORDER=PCI_BUS_ID",
		"0000:01:00.0":  "ROCR_VISIBLE_DEVICES=0",
		"0000:42:00.0":  "ZE_AFFINITY_MASK=0 ZE_ENABLE_PCI_ID_DEVICE_ORDER=1",
	} {
		r := Rank{GPU: hw.Choice{Candidate: hw.Candidate{Name: "card", Location: hw.Location{PCI: pci}}}}
		if got := strings.Join(m.Variables(r), " "); got != want {
			t.Errorf("GPU %s: %s, want %s", pci, got, want)
		}
	}
	r := Rank{NIC: hw.Choice{Candidate: hw.Candidate{Name: "mlx5_1", Port: 2}}}
	if got := strings.Join(m.Variables(r), " "); got != "UCX_NET_DEVICES=mlx5_1:2 NCCL_IB_HCA==mlx5_1:2" {
		t.Errorf("NIC: %s", got)
	}
}

// One line reports all ranks that are far from the same device.
func TestCrossSocketWarnings(t *testing.T) {
	m := twoPackageMachine()
	m.Top.RDMA = m.Top.RDMA[:1]
	plan, err := NewPlan([]Machine{m}, 4, Policy{})
	if want := "[ranks 2-3 on PUs 8-15,24-31 are in another package than mlx5_0:1, the nearest device: " +
		"their traffic crosses sockets]"; err != nil || fmt.Sprint(plan.Notes) != want {
		t.Errorf("%v, %v; want %s", plan.Notes, err, want)
	}
}

// On a hybrid machine a note reports that ranks run on different kinds of cores.
func TestHybrid(t *testing.T) {
	m := Machine{Name: "n", Top: shape{1, 1, 1, 6, 1, 0}.topology()}
	m.Top.Kinds = []hw.Kind{{Name: "cpu_core", PUs: []int{0, 1}}, {Name: "cpu_atom", PUs: []int{2, 3, 4, 5}}}
	for ranks, want := range map[int]string{
		1: "", // it is not bound
		2: "ranks delay the others: rank 0 on cpu_core and cpu_atom, rank 1 on cpu_atom",
		6: "ranks delay the others: ranks 0-1 on cpu_core, ranks 2-5 on cpu_atom",
		7: "so none is bound to a core",
	} {
		plan, err := NewPlan([]Machine{m}, ranks, Policy{})
		if got := strings.Join(plan.Notes, ";"); err != nil || !strings.HasSuffix(got, want) || want == "" && got != "" {
			t.Errorf("%d ranks: %q, %v; want %q", ranks, got, err, want)
		}
	}
	m.Allowed = []int{2, 3, 4, 5}
	if plan, err := NewPlan([]Machine{m}, 4, Policy{}); err != nil || plan.Notes != nil {
		t.Errorf("ranks on slow cores only: %v, %v", plan.Notes, err)
	}
}
