package mpitest

import (
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/mpi/internal/virtual"
	"github.com/ibrun/ibrun/mpi/simulate"
)

// Cluster is a simulated cluster, on which the messages of a world take the time that a model says. One world runs on it at a
// time.
type Cluster struct {
	// RanksPerNode is the number of ranks on each node, one after another; 0: all ranks are on one node. If Options.Machine is
	// set, that says instead which ranks share a node.
	RanksPerNode int
	// Model says how long messages take; the zero Model means simulate.DefaultModel. Its Copy and Reduce have no effect: what a
	// rank does between messages takes no time, except Compute.
	Model simulate.Model

	hub *virtual.Hub // of the world
}

// Compute lets a rank of World compute for some virtual time. It returns immediately: the clock of the rank moves on, and what
// the rank does next is later. It must be called by the function of the world, at this rank.
func (c *Cluster) Compute(rank int, d time.Duration) { c.hub.Compute(rank, d) }

// virtualNetwork connects ranks in virtual time.
type virtualNetwork struct{ *Cluster }

// start makes the hub. nodes has the number of the node of each rank.
func (v virtualNetwork) start(nodes []int) (err error) {
	if v.RanksPerNode < 0 {
		return fmt.Errorf("mpitest: %d ranks on a node", v.RanksPerNode)
	}
	v.hub, err = virtual.NewHub(v.Model, nodes, proto.IsWatch)
	return err
}

func (v virtualNetwork) transport(int) fabric.Transport { return v.hub.Transport() }
func (v virtualNetwork) address(int) []byte             { return nil }
func (v virtualNetwork) fail(rank int, err error)       { v.hub.Fail(rank, err) }

func (v virtualNetwork) nodeName(rank int) string {
	if v.RanksPerNode <= 0 {
		return "node-0"
	}
	return fmt.Sprintf("node-%d", rank/v.RanksPerNode)
}
