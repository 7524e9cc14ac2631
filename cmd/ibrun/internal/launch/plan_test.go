package launch

import (
	"reflect"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
)

func singles(n int) [][]int {
	var cores [][]int
	for i := range n {
		cores = append(cores, []int{i})
	}
	return cores
}

func TestShare(t *testing.T) {
	threaded := [][]int{{0, 4}, {2, 6}, {1, 5}, {3, 7}}
	for _, c := range []struct {
		name   string
		cores  [][]int
		n      int
		bindTo string
		want   [][]int
	}{
		{"one rank has everything", singles(4), 1, "", nil},
		{"one rank on one core", singles(4), 1, "core", [][]int{{0}}},
		{"halves", singles(4), 2, "", [][]int{{0, 1}, {2, 3}}},
		{"a core of its share", singles(4), 2, "core", [][]int{{0}, {2}}},
		{"not bound", singles(4), 2, "none", nil},
		{"what does not divide", singles(8), 3, "", [][]int{{0, 1}, {2, 3}, {5, 6}}},
		{"more ranks than cores", singles(2), 3, "", nil},
		{"more ranks than cores, cores wanted", singles(2), 3, "core", nil},
		{"neighbours with both threads", threaded, 2, "", [][]int{{0, 2, 4, 6}, {1, 3, 5, 7}}},
		{"hardware threads", threaded, 8, "", [][]int{{0}, {4}, {2}, {6}, {1}, {5}, {3}, {7}}},
	} {
		if got := share(c.cores, c.n, c.bindTo); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	half := share(singles(64), 2, "")
	if len(half[0]) != 32 || len(half[1]) != 32 {
		t.Errorf("2 ranks on 64 cores have %d and %d", len(half[0]), len(half[1]))
	}
}

func TestPlan(t *testing.T) {
	m := machine{host: "h", cores: singles(4)}
	programs := func(ranks ...int) *cli.Options {
		o := &cli.Options{}
		for _, n := range ranks {
			o.Programs = append(o.Programs, cli.Program{Ranks: n, Args: []string{"p"}})
		}
		return o
	}
	if p := makePlan(m, programs(0)); len(p.ranks) != 4 || !p.ranks[3].bound || p.note != "" {
		t.Errorf("without -n: %+v, want a rank on each core", p)
	}
	p := makePlan(m, programs(1, 3))
	if len(p.ranks) != 4 || p.ranks[0].program != 0 || p.ranks[1].program != 1 || !reflect.DeepEqual(p.ranks[3].pus, []int{3}) {
		t.Errorf("two programs: %+v", p)
	}
	p = makePlan(m, programs(5))
	if p.ranks[0].bound || len(p.ranks[0].pus) != 4 || !strings.Contains(p.note, "more ranks than cores (5 on 4)") {
		t.Errorf("5 ranks on 4 cores: %+v", p)
	}
	quiet := programs(5)
	quiet.BindTo = "none"
	if p := makePlan(m, quiet); p.note != "" {
		t.Errorf("a note about what was asked for: %q", p.note)
	}
}
