package coordinator

import (
	"encoding/json"
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

// A node is accepted whatever bytes its arguments have, and wherever the part of its command line ends that is shown. Of another
// command line no more than that is shown.
func TestLongCommands(t *testing.T) {
	var words []string
	for n := range 4 {
		words = append(words, strings.Repeat("a", n)+strings.Repeat("é", 300), strings.Repeat("a", n)+strings.Repeat("世", 300))
	}
	ours := newJoin("h", &cli.Options{Programs: []cli.Program{{Ranks: 1, Args: []string{"other"}}}})
	for _, word := range append(words, strings.Repeat("\xe9", 300), "caf\xe9") {
		join := newJoin("h", &cli.Options{Programs: []cli.Program{{Ranks: 1, Args: []string{word}}}})
		text, err := json.Marshal(&protocol.Event{Kind: protocol.EventJoin, Join: join})
		if err != nil {
			t.Fatal(err)
		}
		e, err := decodeEvent(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkCommand(join, 2, 1, 2, e.Join); err != nil || e.Join.Command != join.Command {
			t.Errorf("%.20q: %v; %q arrives as %q", word, err, join.Command, e.Join.Command)
		}
		e.Join.Command = strings.Repeat(e.Join.Command, 100)
		if err := checkCommand(ours, 2, 1, 2, e.Join); exitcode.Of(err) != exitcode.UsageError || len(err.Error()) > 500 {
			t.Errorf("%.20q: %v", word, err)
		}
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
