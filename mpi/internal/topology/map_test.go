package topology_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/hw/hwtest"
	"github.com/ibrun/ibrun/mpi/internal/topology"
)

// machine reads one of the machines that package hw is tested with.
func machine(t *testing.T, name string) *hw.Topology {
	t.Helper()
	top, err := hw.Read(hwtest.Tree(t, "../../../hw/testdata/machines/"+name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// cluster is a number of equal nodes.
type cluster struct {
	name    string
	nodes   int
	perNode int
	top     *hw.Topology
	cores   []int // the first PU of each core on which a rank of a node runs
}

func newCluster(t *testing.T, name string, nodes, perNode int) cluster {
	c := cluster{name: name, nodes: nodes, perNode: perNode, top: machine(t, name)}
	for _, core := range c.top.Cores[:perNode] {
		c.cores = append(c.cores, core.PUs[0])
	}
	return c
}

// places returns the places of ranks. byNode gives consecutive ranks to different nodes, otherwise each node is filled first.
func (c *cluster) places(byNode bool) (all []topology.Place) {
	for r := range c.nodes * c.perNode {
		node, k := r/c.perNode, r%c.perNode
		if byNode {
			node, k = r%c.nodes, r/c.nodes
		}
		all = append(all, topology.PlaceOf(c.top, []int{c.cores[k]}, node))
	}
	return all
}

// checkOrder checks that an order is a permutation, and that it costs at no level more than the present one. It returns both
// costs.
func checkOrder(t *testing.T, l *topology.Links, places []topology.Place, order []int) (before, after topology.Cost) {
	t.Helper()
	var present []int
	for r := range places {
		present = append(present, r)
	}
	if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, present) {
		t.Fatalf("%v is not an order of the ranks", order)
	}
	before, after = l.Cost(places, present), l.Cost(places, order)
	for level := range before {
		if after[level] > before[level] {
			t.Fatalf("at level %d the order costs %v, without it %v", level, after, before)
		}
	}
	return before, after
}

func grid(t *testing.T, periodic bool, dims ...int) *topology.Cart {
	t.Helper()
	size := 1
	for _, n := range dims {
		size *= n
	}
	c, err := topology.NewCart(dims, slices.Repeat([]bool{periodic}, len(dims)), size)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// randomGraph returns links in which every rank sends to degree others. With probability 3/4 they are of its own community of
// ranks, whose members have numbers that are not close to each other.
func randomGraph(seed uint64, n, degree, community int) *topology.Links {
	rnd := rand.New(rand.NewPCG(seed, 1))
	member := rnd.Perm(n)
	var edges []topology.Edge
	for i := range n {
		for range degree {
			j := rnd.IntN(n)
			if rnd.IntN(4) > 0 {
				j = i/community*community + rnd.IntN(community)
			}
			edges = append(edges, topology.Edge{From: member[i], To: member[min(j, n-1)], Weight: 1})
		}
	}
	return topology.NewLinks(n, edges)
}

// eachCase calls f with the links of grids and of a graph of n ranks; g is nil for the graph.
func eachCase(t *testing.T, n, perNode int, f func(name string, l *topology.Links, g *topology.Cart)) {
	for k := 2; k <= 3; k++ {
		dims, err := topology.Balance(n, make([]int, k))
		if err != nil {
			t.Fatal(err)
		}
		for _, periodic := range []bool{false, true} {
			g := grid(t, periodic, dims...)
			name := strings.Trim(strings.ReplaceAll(fmt.Sprint(dims), " ", " x "), "[]")
			f(name+map[bool]string{true: ", periodic"}[periodic], g.Links(), g)
		}
	}
	f("random graph", randomGraph(1, n, 4, perNode), nil)
}

// TestMap maps grids and graphs to clusters of emulated machines, and compares the costs with the table in docs/topologies.md. It
// prints the rows if they differ. Between nodes no grid costs more than twice what cubes would; see atLeast. The random graph
// costs at most half of what it did.
func TestMap(t *testing.T) {
	var rows []string
	for _, c := range []cluster{
		newCluster(t, "two-sockets", 4, 8), newCluster(t, "two-sockets", 16, 8), newCluster(t, "dies", 8, 4),
	} {
		n := c.nodes * c.perNode
		for _, byNode := range []bool{false, true} {
			places := c.places(byNode)
			eachCase(t, n, c.perNode, func(name string, l *topology.Links, g *topology.Cart) {
				before, after := checkOrder(t, l, places, topology.Map(l, g, places))
				filled := map[bool]string{false: "node by node", true: "in turn"}[byNode]
				rows = append(rows, fmt.Sprintf("| %d of %d, %s | %s | %s | %d | %d | %d | %d |", c.nodes, c.perNode, c.name, filled, name,
					before[topology.Node], after[topology.Node], before[topology.NUMA], after[topology.NUMA]))
				if g != nil {
					if most := 2 * atLeast(g, c.perNode) * int64(c.nodes); after[topology.Node] > most {
						t.Errorf("%s on %s, %s: %v, want at most %v between nodes", name, c.name, filled, after, most)
					}
				}
				if g == nil && 2*after[topology.Node] > before[topology.Node] {
					t.Errorf("%s on %s, %s: %v between nodes of %v before", name, c.name, filled, after, before)
				}
			})
		}
	}
	doc, err := os.ReadFile("../../../docs/topologies.md")
	if err != nil {
		t.Fatal(err)
	}
	if table := strings.Join(rows, "\n"); !strings.Contains(string(doc), table+"\n") {
		t.Errorf("docs/topologies.md has another table than this:\n%s", table)
	}
}

// atLeast returns the number of messages that leave a cube of ranks, rounded up.
func atLeast(g *topology.Cart, ranks int) int64 {
	k := float64(g.NumDims())
	return int64(math.Ceil(2 * k * math.Pow(float64(ranks), (k-1)/k)))
}

// TestMapUneven: nodes with different numbers of ranks, in any order, processes that are not bound, and grids that no box
// divides.
func TestMapUneven(t *testing.T) {
	top := machine(t, "two-sockets")
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		dims := []int{1 + rnd.IntN(6), 1 + rnd.IntN(6), 1 + rnd.IntN(3)}
		g := grid(t, seed%2 == 0, dims...)
		var places []topology.Place
		for range g.Size() {
			bound := []int{rnd.IntN(16)}
			if rnd.IntN(3) == 0 {
				bound = []int{0, rnd.IntN(16)}
			}
			places = append(places, topology.PlaceOf(top, bound, rnd.IntN(4)))
		}
		for l, shape := range map[*topology.Links]*topology.Cart{g.Links(): g, randomGraph(seed, g.Size(), 3, 4): nil} {
			if l.Cost(places, nil) != (topology.Cost{}) {
				t.Fatal("no ranks, but a cost")
			}
			order := topology.Map(l, shape, places)
			checkOrder(t, l, places, order)
			if again := topology.Map(l, shape, places); !slices.Equal(order, again) {
				t.Errorf("seed %d: the order is %v, and then %v", seed, order, again)
			}
		}
	}
}

// TestMapBest: where every rank can have all its neighbors close, it has. Without anything to gain nothing is changed.
func TestMapBest(t *testing.T) {
	// Pairs of ranks exchange messages, and are on different nodes.
	var edges []topology.Edge
	var places []topology.Place
	const pairs = 50
	for r := range pairs {
		edges = append(edges, topology.Edge{From: r, To: r + pairs, Weight: math.MaxInt / 2})
	}
	for r := range 2 * pairs {
		places = append(places, topology.UnknownPlace(r%pairs/2*2+r/pairs))
	}
	l := topology.NewLinks(2*pairs, edges)
	before, after := checkOrder(t, l, places, topology.Map(l, nil, places))
	if before[topology.Node] <= 0 || after != (topology.Cost{}) {
		t.Errorf("pairs cost %v, and %v after reordering", before, after)
	}
	for _, places := range [][]topology.Place{make([]topology.Place, 8), {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0},
		{1, 0, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 0}}} {
		g := grid(t, false, 4, 2)
		if order := topology.Map(g.Links(), g, places); !slices.IsSorted(order) {
			t.Errorf("%v was reordered to %v without a gain", places, order)
		}
	}
	if order := topology.Map(topology.NewLinks(0, nil), nil, nil); len(order) != 0 {
		t.Errorf("no ranks have the order %v", order)
	}
}

// TestPlaceOf: the numbers are those of the instance that contains all PUs, and -1 if there is none.
func TestPlaceOf(t *testing.T) {
	top := machine(t, "two-sockets") // even PUs on package 0; 0 and 8 are one core
	for _, x := range []struct {
		pus  []int
		want topology.Place
	}{
		{[]int{0}, topology.Place{3, 0, 0, 0}}, {[]int{8, 0}, topology.Place{3, 0, 0, 0}}, {[]int{11}, topology.Place{3, 1, 1, 3}},
		{[]int{0, 2}, topology.Place{3, 0, 0, -1}}, {[]int{0, 1}, topology.Place{3, -1, -1, -1}}, {nil, topology.UnknownPlace(3)},
		{[]int{99}, topology.UnknownPlace(3)},
	} {
		if got := topology.PlaceOf(top, x.pus, 3); got != x.want {
			t.Errorf("PUs %v are at %v, want %v", x.pus, got, x.want)
		}
	}
}

// BenchmarkMapGraph maps a random graph of 16384 ranks on 256 nodes that are filled in turn.
func BenchmarkMapGraph(b *testing.B) {
	var places []topology.Place
	for r := range int32(16384) {
		places = append(places, topology.Place{r % 256, r / 256 % 2, r / 256 % 8, r / 256})
	}
	l := randomGraph(1, len(places), 8, 64)
	for b.Loop() {
		topology.Map(l, nil, places)
	}
}

// BenchmarkMap maps a grid of 4096 ranks on 64 nodes that are filled in turn.
func BenchmarkMap(b *testing.B) {
	g, err := topology.NewCart([]int{16, 16, 16}, nil, 4096)
	if err != nil {
		b.Fatal(err)
	}
	var places []topology.Place
	for r := range int32(4096) {
		places = append(places, topology.Place{r % 64, r / 64 % 2, r / 64 % 8, r / 64})
	}
	l := g.Links()
	for b.Loop() {
		topology.Map(l, g, places)
	}
}
