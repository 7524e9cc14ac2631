package core

import (
	"testing"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/topology"
	"github.com/ibrun/ibrun/perf"
)

// TestArgumentFaults checks the classes of the errors that arguments of collectives have, without a communicator.
func TestArgumentFaults(t *testing.T) {
	line, err := topology.NewCart([]int{3}, nil, 3)
	if err != nil {
		t.Fatal(err)
	}
	a := arguments{rank: 1, size: 3, local: 2, topology: &Topology{1, line}}
	none := arguments{rank: 1, size: 3, local: 3}
	three, four := make([]int32, 3), make([]int32, 4)
	for _, x := range []struct {
		name  string
		a     *arguments
		inter bool
		call  Collective
		want  Class // 0: the arguments are right
	}{
		{"root", &a, false, Collective{Kind: perf.Bcast, Root: 2}, 0},
		{"no such root", &a, false, Collective{Kind: perf.Bcast, Root: 3}, ErrRoot},
		{"blocks", &a, false, Collective{Kind: perf.Allgather, Dst: Bytes(three), Src: Bytes(four[:1])}, 0},
		{"long block", &a, false, Collective{Kind: perf.Allgather, Dst: Bytes(three), Src: Bytes(four[:2])}, ErrCount},
		{"overlap", &a, false, Collective{Kind: perf.Alltoall, Dst: Bytes(four[:3]), Src: Bytes(four[1:])}, ErrBuffer},
		{"no operation", &a, false, Collective{Kind: perf.Allreduce, Dst: Bytes(three), Src: Bytes(four[:3])}, ErrOp},
		{"two neighbors", &a, false, Collective{Kind: perf.NeighborAllgather, Dst: Bytes(three[:2]), Src: Bytes(four[:1])}, 0},
		{"no neighbors", &none, false, Collective{Kind: perf.NeighborAllgather}, ErrTopology},
		{"counts", &a, false, Collective{Kind: perf.Gatherv, Root: 1, To: coll.Layout{Counts: []int{1, 2}}}, ErrCount},
		{"remote root", &a, true, Collective{Kind: perf.Bcast, Root: ProcNull}, 0},
		{"in place", &a, true, Collective{Kind: perf.Allgather, Dst: Bytes(three), Src: Bytes(three[:1])}, ErrBuffer},
		{"counts of one group", &a, true, Collective{Kind: perf.ReduceScatter, Src: Bytes(four), Dst: Bytes(three), Op: Sum,
			To: coll.Layout{Counts: []int{2, 2}}}, 0},
		{"counts of both groups", &a, true, Collective{Kind: perf.ReduceScatter, Src: Bytes(four), Dst: Bytes(three), Op: Sum,
			To: coll.Layout{Counts: []int{2, 1, 1}}}, ErrCount},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.call.Elements = numbersOf[int32]()
			check := x.a.prepare
			if x.inter {
				check = x.a.prepareInter
			}
			err := check(&x.call, new(coll.Operation))
			f, _ := err.(fault)
			if f.class != x.want || (err != nil) != (x.want != 0) {
				t.Errorf("got class %d (%v), want %d", f.class, err, x.want)
			}
		})
	}
}

// TestInterWhileCreated: whether a communicator is between groups is known before it is activated, which the goroutine of an
// Idup does: a call that comes too early must not read what that goroutine writes.
func TestInterWhileCreated(t *testing.T) {
	c := &Comm{proc: &Process{}, peers: []int32{1}, localGroup: []int32{0}}
	c.coll.comm = c
	if !c.coll.isInter() || c.coll.isRoot(0) || !c.coll.isRoot(Root) {
		t.Error("it is not between groups")
	}
}
