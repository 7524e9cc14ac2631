package coordinator

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

func TestNodesAgree(t *testing.T) {
	of := func(programs ...Program) *protocol.Join {
		return newJoin("h", &Command{Programs: programs})
	}
	ours := of(Program{Ranks: 2, Args: []string{"a", "b c"}}, Program{Ranks: 1, Args: []string{"d"}})
	if err := checkCommand(ours, 2, 1, 2, of(Program{Ranks: 2, Args: []string{"a", "b c"}},
		Program{Ranks: 1, Args: []string{"d"}})); err != nil {
		t.Errorf("the same command line: %v", err)
	}
	joined := of(Program{Ranks: 2, Args: []string{"a", "b", "c"}}, Program{Ranks: 1, Args: []string{"d"}})
	for want, other := range map[string]*protocol.Join{
		`node 1 (h) was started with "-n 3 a"`:       of(Program{Ranks: 3, Args: []string{"a"}}),
		`"-n 2 a b c : -n 1 d", but node 0 with "-n`: joined,
	} {
		if err := checkCommand(ours, 2, 1, 2, other); exitcode.Of(err) != exitcode.UsageError || !strings.Contains(err.Error(),
			want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	cyclic := newJoin("h", &Command{Mapping: "--map-by node", Programs: []Program{{Ranks: 2, Args: []string{"a"}}}})
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
	ours := newJoin("h", &Command{Programs: []Program{{Ranks: 1, Args: []string{"other"}}}})
	for _, word := range append(words, strings.Repeat("\xe9", 300), "caf\xe9") {
		join := newJoin("h", &Command{Programs: []Program{{Ranks: 1, Args: []string{word}}}})
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
	cmd := &Command{Psets: []Pset{{Name: "x", Ranks: "5-6,0-1,2,1"}, {Name: "y", Ranks: "3"}}}
	if newJoin("n", cmd).Hash == newJoin("n", &Command{}).Hash {
		t.Error("nodes do not notice that others have other process sets")
	}
}
