package launch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/report"
	"github.com/ibrun/ibrun/internal/pmi"
)

// Each node plans its own part of the job, and one that has none is told.
func TestPlanOfNode(t *testing.T) {
	o := &cli.Options{Node: 1, Nodes: 2, Programs: []cli.Program{{Ranks: 3, Args: []string{"a"}}, {Ranks: 2, Args: []string{"b"}}}}
	p := planOf(t, flat(4), o)
	if len(p.NodeOf) != 5 || fmt.Sprint(p.localRanks(), p.placement.Ranks[0].PUs, p.placement.Ranks[1].PUs) != "[3 4] [0 1] [2 3]" || p.oversubscribed[0] {
		t.Errorf("%+v", p)
	}
	var table strings.Builder
	if err := p.print(&table, o); err != nil {
		t.Fatal(err)
	}
	if want := "rank node cores program\n   0 node-0 -   a\n"; !strings.HasPrefix(table.String(), want) ||
		!strings.HasSuffix(table.String(), "   4 h      2-3 b\n") {
		t.Errorf("got\n%s", &table)
	}
	m := &Cluster{MasterAddr: "10.0.0.1", Welcome: Welcome{JobID: "j", MasterPort: 99}}
	task, err := makeTask(m, p, o, []program{{path: "/a"}, {path: "/b"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(task.Ranks) != 2 || task.Ranks[0].Rank != 3 || task.Ranks[0].Path != "/b" || task.Programs[0].Ranks != 3 {
		t.Errorf("%+v", task)
	}
	env := RankEnv(task, 1)
	for _, want := range []string{"RANK=4", "WORLD_SIZE=5", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1",
		"GROUP_WORLD_SIZE=2",
		"OMPI_COMM_WORLD_LOCAL_RANK=1", "MPI_LOCALNRANKS=2", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=99"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}

	o.Policy.PerNode = 8
	if _, err := makePlan(flat(4), nodeNames("h", o), o); Of(err) != UsageError ||
		!strings.Contains(err.Error(), "no rank is left for node 1 (h) of 2") {
		t.Errorf("all ranks on node 0: %v", err)
	}
}

func TestNodesAgree(t *testing.T) {
	of := func(programs ...cli.Program) *Join {
		return newJoin("h", &cli.Options{Programs: programs})
	}
	ours := of(cli.Program{Ranks: 2, Args: []string{"a", "b c"}}, cli.Program{Ranks: 1, Args: []string{"d"}})
	if err := checkCommand(ours, 2, 1, 2, of(cli.Program{Ranks: 2, Args: []string{"a", "b c"}, Dir: "/elsewhere"},
		cli.Program{Ranks: 1, Args: []string{"d"}, Env: []string{"A=1"}})); err != nil {
		t.Errorf("directory and variables may differ: %v", err)
	}
	joined := of(cli.Program{Ranks: 2, Args: []string{"a", "b", "c"}}, cli.Program{Ranks: 1, Args: []string{"d"}})
	for want, other := range map[string]*Join{
		`node 1 (h) is to start "-n 3 a"`:       of(cli.Program{Ranks: 3, Args: []string{"a"}}),
		`"-n 2 a b c : -n 1 d", and node 0 "-n`: joined,
	} {
		if err := checkCommand(ours, 2, 1, 2, other); Of(err) != UsageError || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	cyclic := newJoin("h", &cli.Options{Policy: placement.Policy{Map: placement.Node},
		Programs: []cli.Program{{Ranks: 2, Args: []string{"a"}}}})
	if err := checkCommand(ours, 2, 1, 2, cyclic); Of(err) != UsageError || !strings.Contains(err.Error(), `"--map-by node -n 2 a"`) {
		t.Errorf("another layout: %v", err)
	}
	const want = "3 nodes, and node 0 that there are 2"
	if err := checkCommand(ours, 2, 1, 3, ours); Of(err) != UsageError || !strings.Contains(err.Error(), want) {
		t.Errorf("another number of nodes: %v", err)
	}
}

// Of two nodes' faults the earlier one counts, and of one node's the one that was heard of first.
func TestEarlierFault(t *testing.T) {
	first := &failure{node: 1, time: 100}
	for _, c := range []struct {
		f    failure
		want bool
	}{{failure{node: 0, time: 99}, true}, {failure{node: 0, time: 101}, false}, {failure{node: 1, time: 99}, false}} {
		if got := c.f.precedes(first); got != c.want {
			t.Errorf("%+v: %v", c.f, got)
		}
	}
}

func testMessages(t testing.TB) (events, orders [][]byte) {
	pack := func(v any) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, e := range []Event{{Kind: EventStarted, Ranks: []int{2, 3}, PIDs: []int{7, 8}}, {Kind: EventExit, Rank: 3, Code: 5},
		{Kind: EventExit, Rank: 3, Signal: 9}, {Kind: EventInit, Rank: 3}, {Kind: EventFinalize, Rank: 2},
		{Kind: EventAbort, Rank: 3, Code: 7, Text: "why"}, {Kind: EventSignal, Signal: 2},
		{Kind: EventNotStarted, Rank: -1, Code: 1, Text: "why"},
		{Kind: EventFailure, Code: 1, Text: "why"}, {Kind: EventDone, Rank: -1}, {Kind: EventJoin, Join: &Join{Name: "n"}},
		{Kind: EventParcel, Parcel: &pmi.Parcel{Group: "WORLD:0"}}, {Kind: EventPage, Rank: 2, Page: []byte("page")},
		{Kind: EventProgress, Progress: &Progress{Done: 1, Total: 2}},
		{Kind: EventInspect, Question: &Question{ID: 1, Stacks: []int{2}}}, {Kind: EventInspect, Answer: &Answer{ID: 2, More: true}},
		{Kind: EventNodeRecord, NodeRecord: &report.Node{Name: "n", Ranks: []report.Place{{Rank: 2}, {Rank: 3}}}}} {
		events = append(events, pack(e))
	}
	for _, o := range []Order{{Signal: 2}, {End: &EndOrder{Grace: 50, LastOutputOf: 1}}, {Parcel: &pmi.Parcel{}}, {Question: &Question{ID: 3}},
		{Answer: &Answer{ID: 4, Stacks: map[int]string{2: "goroutine 1"}}}, {Welcome: &Welcome{JobID: "j"}},
		{Outcome: &Outcome{Code: 3, Lines: []string{"why"}}}} {
		orders = append(orders, pack(o))
	}
	return events, orders
}

func TestMessagePrefixes(t *testing.T) {
	events, orders := testMessages(t)
	for _, text := range events {
		if e, err := decodeEvent(text); err != nil || e.Kind == "" {
			t.Errorf("%s: %v", text, err)
		}
		for i := range text {
			if _, err := decodeEvent(text[:i]); err == nil {
				t.Errorf("%s was taken", text[:i])
			}
		}
	}
	for _, text := range orders {
		if _, err := decodeOrder(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		for i := range text {
			if _, err := decodeOrder(text[:i]); err == nil {
				t.Errorf("%s was taken", text[:i])
			}
		}
	}
}
