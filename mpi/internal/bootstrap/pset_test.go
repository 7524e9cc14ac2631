//go:build unix

package bootstrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/internal/ranklink"
)

// show writes sets down.
func show(sets []Pset) string {
	var lines []string
	for _, s := range sets {
		lines = append(lines, fmt.Sprint(s.Name, s.Ranks))
	}
	return strings.Join(lines, "; ")
}

func TestListPsets(t *testing.T) {
	nodes := []int{0, 1, 0, 1, 2} // 1 and 2 have the same name
	infos := []nodeInfo{
		{"a", []int{0, 2}, []ranklink.Locality{{NUMA: 1, Rails: []int{0}}, {NUMA: 0, Rails: []int{1}}}},
		{"b", []int{1, 3}, []ranklink.Locality{{NUMA: 0, Rails: []int{0, 1}}, {NUMA: -1}}},
		{"b", []int{4}, []ranklink.Locality{{NUMA: 0, Rails: []int{12}}}},
	}
	users := []ranklink.Pset{{Name: "Z", Ranks: [][2]int{{0, 2}, {4, 4}}}, {Name: "a set", Ranks: [][2]int{{3, 3}}}}
	want := "ibrun://node/a[0 2]; ibrun://node/b[1 3]; ibrun://node/b[4]; " +
		"ibrun://numa/a/0[2]; ibrun://numa/a/1[0]; ibrun://numa/b/0[1]; ibrun://numa/b/0[4]; " +
		"ibrun://rail/0[0 1]; ibrun://rail/1[1 2]; ibrun://rail/12[4]; Z[0 1 2 4]; a set[3]"
	if got := show(listPsets(nodes, infos, users)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	infos[0], infos[2] = infos[2], infos[0]
	if got := show(listPsets(nodes, infos, users)); got != want {
		t.Errorf("from infos in another order: %s", got)
	}
}

// TestPsetsOtherLauncher: under another launcher each process publishes its own nodeInfo, and all derive the same
// sets.
func TestPsetsOtherLauncher(t *testing.T) {
	all := boards(t, 4)
	var ready sync.WaitGroup
	for rank, b := range all {
		c := nodeInfo{fmt.Sprint("n", rank/2), []int{rank}, []ranklink.Locality{{NUMA: rank % 2}}}
		if err := publishNodeInfo(b.client, c); err != nil {
			t.Fatal(err)
		}
		ready.Go(func() {
			if err := b.publish(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	ready.Wait()
	want := "ibrun://node/n0[0 1]; ibrun://node/n1[2 3]; " +
		"ibrun://numa/n0/0[0]; ibrun://numa/n0/1[1]; ibrun://numa/n1/0[2]; ibrun://numa/n1/1[3]"
	for rank, b := range all {
		if sets, err := b.psets(); err != nil || show(sets) != want {
			t.Errorf("rank %d: %s, %v\nwant %s", rank, show(sets), err, want)
		}
	}
}

// TestPsetsIbrun: under ibrun one process of each node publishes the localities of all; on a single node none needs to.
func TestPsetsIbrun(t *testing.T) {
	all := boards(t, 4)
	info := ranklink.RankInfo{Size: 4, Nodes: 2, NodeName: "n1", NodeRanks: []int{2, 3},
		Localities: []ranklink.Locality{{NUMA: 0}, {NUMA: 0}},
		Psets:      []ranklink.Pset{{Name: "x", Ranks: [][2]int{{1, 2}}}}}
	if _, err := (&kvs{client: all[0].client, info: &info}).psets(); err == nil {
		t.Error("no error without published records")
	}
	if err := publishNodeInfo(all[2].client, nodeInfoFrom(&info)); err != nil {
		t.Fatal(err)
	}
	if err := publishNodeInfo(all[0].client, nodeInfoFrom(&ranklink.RankInfo{NodeName: "n0", NodeRanks: []int{0, 1}})); err != nil {
		t.Fatal(err)
	}
	want := "ibrun://node/n0[0 1]; ibrun://node/n1[2 3]; ibrun://numa/n1/0[2 3]; x[1 2]"
	if sets, err := (&kvs{client: all[3].client, info: &info}).psets(); err != nil || show(sets) != want {
		t.Errorf("%s, %v\nwant %s", show(sets), err, want)
	}
	info.Size, info.NodeRanks = 2, []int{0, 1}
	want = "ibrun://node/n1[0 1]; ibrun://numa/n1/0[0 1]; x[1 2]"
	if sets, err := (&kvs{info: &info}).psets(); err != nil || show(sets) != want {
		t.Errorf("%s, %v\nwant %s", show(sets), err, want)
	}
}

// TestOwnNodeInfo: a single process is on its node.
func TestOwnNodeInfo(t *testing.T) {
	sets, err := singleton().Psets()
	if err != nil || len(sets) == 0 || !strings.HasPrefix(sets[0].Name, "ibrun://node/") || fmt.Sprint(sets[0].Ranks) != "[0]" {
		t.Errorf("%v, %v", sets, err)
	}
}

func goodCard() []byte {
	b, _ := json.Marshal(nodeInfo{"n", []int{0, 3}, []ranklink.Locality{{NUMA: 1, Rails: []int{0}}, {NUMA: -1}}})
	return b
}

func TestNodeInfoPrefixes(t *testing.T) {
	good := goodCard()
	if _, err := parseNodeInfo(good, 4); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		if c, err := parseNodeInfo(good[:i], 4); !errors.Is(err, errNodeInfo) {
			t.Errorf("the first %d bytes: %v, %v", i, c, err)
		}
	}
	for _, bad := range []string{`{}`, `{"Node":"n","Ranks":[4],"Localities":[{}]}`, `{"Node":"n","Ranks":[-1],"Localities":[{}]}`,
		`{"Node":"n","Ranks":[1],"Localities":[]}`, `{"Node":"","Ranks":[1],"Localities":[{}]}`,
		`{"Node":"n","Ranks":[],"Localities":[]}`,
		`{"Node":"` + strings.Repeat("n", maxNodeName+1) + `","Ranks":[1],"Localities":[{}]}`} {
		if c, err := parseNodeInfo([]byte(bad), 4); !errors.Is(err, errNodeInfo) {
			t.Errorf("%.50s: %v, %v", bad, c, err)
		}
	}
}

func FuzzNodeInfo(f *testing.F) {
	f.Add(goodCard())
	f.Add([]byte(`{"Node":"n","Ranks":[0,0,1],"Localities":[{"NUMA":9},{"Rails":[5,5]},{}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseNodeInfo(b, 4)
		if err != nil {
			return
		}
		for _, s := range listPsets(make([]int, 4), []nodeInfo{c}, nil) {
			for i, r := range s.Ranks {
				if r < 0 || r >= 4 || i > 0 && r <= s.Ranks[i-1] || len(s.Name) > 1023 {
					t.Fatalf("%v from %q", s, b)
				}
			}
		}
	})
}
