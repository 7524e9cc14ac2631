package launch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/agent"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/coordinator"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/hw"
)

// Each node plans its own part of the job. A node without ranks is an error.
func TestPlanOfNode(t *testing.T) {
	j := newJob(&cli.Options{Node: cli.Node{Number: 1, Count: 2}, Programs: []cli.Program{{Ranks: 3, Args: []string{"a"}}, {Ranks: 2,
		Args: []string{"b"}}}})
	p := planOf(t, flat(4), j)
	if len(p.NodeOf) != 5 || fmt.Sprint(p.localRanks(), p.placement.Ranks[0].PUs,
		p.placement.Ranks[1].PUs) != "[3 4] [0 1] [2 3]" || p.oversubscribed[0] {
		t.Errorf("%+v", p)
	}
	var table strings.Builder
	if err := p.print(&table, j.programs); err != nil {
		t.Fatal(err)
	}
	if want := "rank node cores program\n   0 node-0 -   a\n"; !strings.HasPrefix(table.String(), want) ||
		!strings.HasSuffix(table.String(), "   4 h      2-3 b\n") {
		t.Errorf("got\n%s", &table)
	}
	m := &coordinator.Cluster{MasterAddr: "10.0.0.1", Job: protocol.JobInfo{JobID: "j", MasterPort: 99}}
	task, err := makeTask(m, p, j, []program{{path: "/a"}, {path: "/b"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(task.Ranks) != 2 || task.Ranks[0].Rank != 3 || task.Ranks[0].Path != "/b" || task.Programs[0].Ranks != 3 {
		t.Errorf("%+v", task)
	}
	env := agent.RankEnv(task, 1, 1024)
	for _, want := range []string{"RANK=4", "WORLD_SIZE=5", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1",
		"GROUP_WORLD_SIZE=2",
		"OMPI_COMM_WORLD_LOCAL_RANK=1", "MPI_LOCALNRANKS=2", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=99"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}

	j.place.policy.PerNode = 8
	if _, err := makePlan(flat(4), nodeNames("h", &j.place), j.programs, &j.place); exitcode.Of(err) != exitcode.UsageError ||
		!strings.Contains(err.Error(), "node 1 (h) of 2 gets no rank") {
		t.Errorf("all ranks on node 0: %v", err)
	}
}

// flat returns a machine with that many cores and no known topology.
func flat(cores int) placement.Machine {
	m := placement.Machine{Name: "h", Top: new(hw.Topology)}
	for i := range cores {
		m.Allowed = append(m.Allowed, i)
	}
	return m
}

// sockets returns a machine with two packages, each with four cores, a NIC and a GPU.
func sockets() placement.Machine {
	m := flat(8)
	for i := range 8 {
		m.Top.PUs = append(m.Top.PUs, hw.PU{ID: i, Core: i, L3: i / 4 * 4, Node: i / 4, Package: i / 4})
	}
	for i := range 2 {
		pus := m.Allowed[4*i : 4*i+4]
		m.Top.Nodes = append(m.Top.Nodes, hw.Node{ID: i, PUs: pus, Near: pus, Distances: []int{10 + 10*i, 20 - 10*i}})
		pci := fmt.Sprintf("0000:0%d:00.0", i+1)
		m.Top.RDMA = append(m.Top.RDMA, hw.RDMADevice{Name: fmt.Sprint("mlx5_", i), PCI: pci, NUMA: i, LocalPUs: pus,
			Ports: []hw.RDMAPort{{Number: 1, State: hw.PortActive}}})
		m.Top.GPUs = append(m.Top.GPUs, hw.Device{Name: fmt.Sprint("card", i), PCI: pci[:10] + "1.0", ID: "10de:2330", NUMA: i,
			LocalPUs: pus})
	}
	return m
}

func programs(ranks ...int) *job {
	o := &cli.Options{}
	for _, n := range ranks {
		o.Programs = append(o.Programs, cli.Program{Ranks: n, Args: []string{"p"}})
	}
	return newJob(o)
}

func planOf(t *testing.T, m placement.Machine, j *job) *plan {
	t.Helper()
	p, err := makePlan(m, nodeNames(m.Name, &j.place), j.programs, &j.place)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestDefaultPlan: the placement without flags is as docs/affinity.md describes it.
func TestDefaultPlan(t *testing.T) {
	threaded := flat(8)
	for i, pu := range []hw.PU{{Core: 0, L3: 0}, {Core: 1, L3: 1}, {Core: 2, L3: 0}, {Core: 3, L3: 1}} {
		for thread := range 2 {
			pu.ID = i + 4*thread
			threaded.Top.PUs = append(threaded.Top.PUs, pu)
		}
	}
	for _, c := range []struct {
		name string
		m    placement.Machine
		n    int
		want string
	}{
		{"one rank has everything", flat(4), 1, "-"},
		{"halves", flat(4), 2, "0-1 2-3"},
		{"a number that does not divide", flat(8), 3, "0-1 2-3 5-6"},
		{"more ranks than cores", flat(2), 3, "- - -"},
		{"neighbours with both threads", threaded, 2, "0,2,4,6 1,3,5,7"},
		{"hardware threads", threaded, 8, "0 4 2 6 1 5 3 7"},
		{"one rank on each core", flat(2), 0, "0 1"},
	} {
		var words []string
		for _, r := range planOf(t, c.m, programs(c.n)).placement.Ranks {
			word := "-"
			if r.Bound {
				word = hw.FormatList(r.PUs)
			}
			words = append(words, word)
		}
		if got := strings.Join(words, " "); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestPlan(t *testing.T) {
	p := planOf(t, flat(4), programs(1, 3))
	if len(p.NodeOf) != 4 || fmt.Sprint(p.programs) != "[0 1 1 1]" || !slices.Equal(p.placement.Ranks[3].PUs, []int{3}) {
		t.Errorf("two programs: %+v", p)
	}
	p = planOf(t, flat(4), programs(5))
	if !p.oversubscribed[0] || len(p.placement.Ranks[0].PUs) != 4 ||
		fmt.Sprint(p.placement.Notes) != "[more ranks than cores (5 on 4), so none is bound to a core]" {
		t.Errorf("5 ranks on 4 cores: %+v", p)
	}
	quiet := programs(5)
	quiet.place.policy.Bind = placement.None
	if p := planOf(t, flat(4), quiet); p.placement.Notes != nil {
		t.Errorf("a note about what was asked for: %q", p.placement.Notes)
	}
}

// A placement that is impossible is a usage error that says what is missing.
func TestPlanRefuses(t *testing.T) {
	nothing := flat(0)
	nothing.Allowed = []int{}
	masked := sockets()
	masked.Allowed = []int{1, 2}
	for _, c := range []struct {
		m      placement.Machine
		policy placement.Policy
		kind   error
		want   string
	}{
		{nothing, placement.Policy{}, placement.ErrNoObject, "allow no PU"},
		{flat(2), placement.Policy{Map: placement.NUMA}, placement.ErrNoObject, "does not report the numa of PU 0"},
		{flat(2), placement.Policy{Strict: true}, placement.ErrNoSlots, "3 ranks requested, but the node has only 2 cores"},
		{masked, placement.Policy{Map: placement.Device, Device: "mlx5_1"}, placement.ErrNoObject,
			"place ranks on h: no object to place ranks on: none of the allowed PUs 1-2 is near mlx5_1"},
	} {
		j := programs(3)
		j.place.policy = c.policy
		_, err := makePlan(c.m, nodeNames("h", &j.place), j.programs, &j.place)
		if !errors.Is(err, c.kind) || exitcode.Of(err) != exitcode.UsageError || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.policy, err, c.want)
		}
	}
}

// Binding, memory and devices are part of the agent's task. Variables for the devices of other libraries are set only if ranks
// are mapped to devices, and the user's own variables take precedence.
func TestTaskOfPlan(t *testing.T) {
	j := programs(2)
	policy := &j.place.policy
	r := planOf(t, sockets(), j).rankTask(1, policy.Map)
	if fmt.Sprint(r.PUs, r.Memory, r.Devices, r.Env) != "[4 5 6 7] [1] [mlx5_1:1] []" || r.Oversubscribed {
		t.Errorf("%+v", r)
	}
	policy.Bind = placement.Node
	if r := planOf(t, sockets(), j).rankTask(1, policy.Map); r.Memory != nil || len(r.PUs) != 8 {
		t.Errorf("a rank that is bound to the whole node prefers memory of nodes %v", r.Memory)
	}
	*policy = placement.Policy{Map: placement.Device}
	t1 := &protocol.Task{Size: 2, Programs: []protocol.ProgramTask{{Env: []string{"UCX_NET_DEVICES=mine"}}}}
	t1.Ranks = []protocol.RankTask{planOf(t, sockets(), j).rankTask(1, policy.Map)}
	env := agent.RankEnv(t1, 0, 1024)
	for _, want := range []string{"UCX_NET_DEVICES=mine", "NCCL_IB_HCA==mlx5_1:1", "CUDA_VISIBLE_DEVICES=1",
		"CUDA_DEVICE_ORDER=PCI_BUS_ID"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}
	if slices.Contains(env, "UCX_NET_DEVICES=mlx5_1:1") {
		t.Error("the user's own variable is overridden")
	}
	policy.Device = "mlx5_0"
	j.programs[0].Ranks = 6
	if p := planOf(t, sockets(), j); !p.oversubscribed[0] || !p.rankTask(0, policy.Map).Oversubscribed {
		t.Errorf("six ranks on four cores do not share processors: %+v", p)
	}
}

// A note says that devices are at another socket if the job would use them, but not for a job in shared memory.
func TestCrossingNote(t *testing.T) {
	m := sockets()
	m.Top.RDMA = m.Top.RDMA[:1]
	alone, far, two := programs(2), programs(2), programs(4)
	far.place.transports, two.place.nodes = "rdma", 2
	if p := planOf(t, m, alone); p.placement.Notes != nil {
		t.Errorf("a job on one node: %q", p.placement.Notes)
	}
	for _, j := range []*job{far, two} {
		p := planOf(t, m, j)
		if len(p.placement.Notes) != 1 || !strings.Contains(p.placement.Notes[0], "rank 1 on PUs 4-7 is in another package") {
			t.Errorf("%+v: %q", j, p.placement.Notes)
		}
	}
}
