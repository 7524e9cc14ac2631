package simulate

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/mpi/internal/coll"
)

// exact is a model in which times are easy to compute.
var exact = Model{Node: Link{10, 1, 1e9}, Network: Link{100, 5, 1e9}, Copy: 1e9, Reduce: 1e9, Eager: 1000}

// TestRun: every algorithm gives the right results, for numbers of ranks that are and are not powers of two, for short and long
// data, and with any number of ranks on a node. The same run gives the same times.
func TestRun(t *testing.T) {
	for _, name := range Names() {
		for _, ranks := range []int{2, 3, 8, 13, 32} {
			for _, bytes := range []int{1, 100, 5000} {
				cfg := Config{Ranks: ranks, RanksPerNode: 1 + ranks/3, Cores: bytes % 3, Model: exact}
				first, err := Run(cfg, name, bytes)
				if err != nil {
					t.Fatalf("%s, %d ranks, %d bytes: %v", name, ranks, bytes, err)
				}
				again, _ := Run(cfg, name, bytes)
				for i, x := range first {
					if x != again[i] || x.Skipped != "" || x.Time == 0 {
						t.Errorf("%+v and %+v", x, again[i])
					}
				}
			}
		}
	}
}

// TestTimes computes times by hand: a message between two ranks of a node, between two nodes, and a long one.
func TestTimes(t *testing.T) {
	for _, c := range []struct {
		perNode, bytes int
		want           time.Duration
	}{
		{2, 100, 1 + 100 + 10 + 1},
		{1, 100, 5 + 100 + 100 + 5},
		{1, 2000, 5 + 100 + 100 + 2000 + 100 + 5}, // announcement, answer, data
	} {
		x, err := Run(Config{Ranks: 2, RanksPerNode: c.perNode, Model: exact}, "bcast", c.bytes)
		if err != nil || x[0].Time != c.want || x[0].Messages != 1 || x[0].Volume != int64(c.bytes) {
			t.Errorf("%d bytes, %d ranks on a node: %+v, %v, want %v", c.bytes, c.perNode, x, err, c.want)
		}
	}
}

// TestSharedLink: the ranks of a node share its link: two that send at once need twice as long.
func TestSharedLink(t *testing.T) {
	w, err := run(&Config{Ranks: 4, RanksPerNode: 2, Model: exact}, func(p coll.Peer) error {
		b := make([]byte, 1000)
		if p.Rank() < 2 {
			return p.Send(p.Rank()+2, b)
		}
		return p.Recv(p.Rank()-2, b)
	})
	if err != nil || w.ranks[2].now != 5+1000+100+5 || w.ranks[3].now != 5+2000+100+5 {
		t.Errorf("%v, %v ns and %v ns", err, w.ranks[2].now, w.ranks[3].now)
	}
}

// TestSharedCores: ranks that share a core send and receive one after the other; with a core each they do not.
func TestSharedCores(t *testing.T) {
	for _, c := range []struct {
		cores         int
		first, second float64
	}{{0, 1 + 100 + 10 + 1, 1 + 100 + 10 + 1}, {4, 112, 112}, {1, 112, 113}} {
		w, err := run(&Config{Ranks: 4, RanksPerNode: 4, Cores: c.cores, Model: exact}, func(p coll.Peer) error {
			b := make([]byte, 100)
			if p.Rank() < 2 {
				return p.Send(p.Rank()+2, b)
			}
			return p.Recv(p.Rank()-2, b)
		})
		if err != nil || w.ranks[2].now != c.first || w.ranks[3].now != c.second {
			t.Errorf("%d cores: %v, %v ns and %v ns, want %v and %v", c.cores, err, w.ranks[2].now, w.ranks[3].now, c.first, c.second)
		}
	}
}

// TestWrongPrograms: a deadlock, and messages of the wrong length, are errors.
func TestWrongPrograms(t *testing.T) {
	b := make([]byte, 2000)
	pair := &Config{Ranks: 2, RanksPerNode: 2, Model: exact}
	if _, err := run(pair, func(p coll.Peer) error { return p.Recv(1-p.Rank(), b) }); !errors.Is(err, errDeadlock) {
		t.Errorf("two receives: %v", err)
	}
	if _, err := run(pair, func(p coll.Peer) error { return p.Send(1-p.Rank(), b) }); !errors.Is(err, errDeadlock) {
		t.Errorf("two long sends: %v", err)
	}
	_, err := run(pair, func(p coll.Peer) error {
		if p.Rank() == 0 {
			return p.Send(1, b[:5])
		}
		return p.Recv(0, b[:6])
	})
	if err == nil || !strings.Contains(err.Error(), "sends 5 bytes to rank 1, which expects 6") {
		t.Errorf("wrong length: %v", err)
	}
}

// TestRefused: wrong arguments are errors, and what needs too much memory is skipped.
func TestRefused(t *testing.T) {
	for name, cfg := range map[string]Config{"allreduce": {Ranks: 1}, "bcast": {Ranks: 2, RanksPerNode: -1}, "sum": {Ranks: 2},
		"barrier": {Ranks: 2, Model: Model{Eager: 1}}} {
		if _, err := Run(cfg, name, 8); err == nil {
			t.Errorf("%s with %+v: no error", name, cfg)
		}
	}
	if x, err := Run(Config{Ranks: 4, Selected: true}, "bcast", 8); err != nil || len(x) != 1 || !x[0].Selected {
		t.Errorf("%+v, %v", x, err)
	}
	x, err := Run(Config{Ranks: 4096, Memory: 1 << 20}, "alltoall", 8)
	if err != nil || len(x) != 3 || x[0].Skipped == "" {
		t.Errorf("%+v, %v", x, err)
	}
}
