package core

import (
	"slices"
	"testing"

	"github.com/ibrun/ibrun/mpi/internal/topology"
)

// TestTopologyQueries checks what a rank sees of each kind of topology, and that calls for other kinds fail.
func TestTopologyQueries(t *testing.T) {
	ring, err := topology.NewCart([]int{4}, []bool{true}, 4)
	if err != nil {
		t.Fatal(err)
	}
	star, err := topology.NewGraph([][]int{{1, 2}, {0}, {0}})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name      string
		of        *Topology
		kind      int
		neighbors []int // of this rank, which sends to them
	}{
		{"none", nil, Undefined, nil},
		{"ring", &Topology{3, ring}, Cart, []int{2, 0}},
		{"star", &Topology{0, star}, Graph, []int{1, 2}},
		{"edge", &Topology{1, &Neighbors{Destinations: []int{2}}}, DistGraph, []int{2}},
	} {
		if kind := x.of.TopoTest(); kind != x.kind {
			t.Errorf("%s: kind %d, want %d", x.name, kind, x.kind)
		}
		n, err := x.of.Neighbors()
		if !slices.Equal(n.Destinations, x.neighbors) || (err != nil) != (x.of == nil) {
			t.Errorf("%s: neighbors %v and error %v, want %v", x.name, n.Destinations, err, x.neighbors)
		}
		_, ofCart := x.of.CartdimGet()
		_, ofGraph := x.of.GraphGet()
		_, ofEdges := x.of.DistGraphNeighbors()
		for kind, err := range map[int]error{Cart: ofCart, Graph: ofGraph, DistGraph: ofEdges} {
			if f, _ := err.(fault); (err == nil) != (kind == x.kind) || err != nil && f.class != ErrTopology {
				t.Errorf("%s: call for kind %d: error %v of class %d", x.name, kind, err, f.class)
			}
		}
	}
}
