package coordinator

import (
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
)

func TestNodesAgree(t *testing.T) {
	of := func(programs ...cli.Program) *protocol.Join {
		return newJoin("h", &cli.Options{Programs: programs})
	}
	ours := of(cli.Program{Ranks: 2, Args: []string{"a", "b c"}}, cli.Program{Ranks: 1, Args: []string{"d"}})
	if err := checkCommand(ours, 2, 1, 2, of(cli.Program{Ranks: 2, Args: []string{"a", "b c"}, Dir: "/elsewhere"},
		cli.Program{Ranks: 1, Args: []string{"d"}, Env: []string{"A=1"}})); err != nil {
		t.Errorf("directory and variables may differ: %v", err)
	}
	joined := of(cli.Program{Ranks: 2, Args: []string{"a", "b", "c"}}, cli.Program{Ranks: 1, Args: []string{"d"}})
	for want, other := range map[string]*protocol.Join{
		`node 1 (h) was started with "-n 3 a"`:       of(cli.Program{Ranks: 3, Args: []string{"a"}}),
		`"-n 2 a b c : -n 1 d", but node 0 with "-n`: joined,
	} {
		if err := checkCommand(ours, 2, 1, 2, other); exitcode.Of(err) != exitcode.UsageError || !strings.Contains(err.Error(),
			want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	cyclic := newJoin("h", &cli.Options{Policy: placement.Policy{Map: placement.Node},
		Programs: []cli.Program{{Ranks: 2, Args: []string{"a"}}}})
	if err := checkCommand(ours, 2, 1, 2, cyclic); exitcode.Of(err) != exitcode.UsageError || !strings.Contains(err.Error(),
		`"--map-by node -n 2 a"`) {
		t.Errorf("another layout: %v", err)
	}
	const want = "3 nodes, but node 0 for 2"
	if err := checkCommand(ours, 2, 1, 3, ours); exitcode.Of(err) != exitcode.UsageError || !strings.Contains(err.Error(), want) {
		t.Errorf("another number of nodes: %v", err)
	}
}

// TestPsetsAgree: nodes that were given different process sets have different hashes.
func TestPsetsAgree(t *testing.T) {
	o := &cli.Options{Psets: []cli.Pset{
		{Name: "x", Ranks: cli.Ranges{{Low: 5, High: 6}, {Low: 0, High: 1}, {Low: 2, High: 2}, {Low: 1, High: 1}}},
		{Name: "y", Ranks: cli.Ranges{{Low: 3, High: 3}}},
	}}
	if newJoin("n", o).Hash == newJoin("n", &cli.Options{}).Hash {
		t.Error("nodes do not notice that others have other process sets")
	}
}
