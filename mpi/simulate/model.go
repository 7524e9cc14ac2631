package simulate

import (
	"fmt"
	"time"
)

// Link describes messages between two ranks, in the terms of LogGP: a message of n bytes needs Overhead at the sender, then the
// link for n/Bandwidth, then Latency, then Overhead at the receiver.
type Link struct {
	Latency, Overhead time.Duration
	Bandwidth         float64 // bytes/s
}

// Model is what messages and work cost.
type Model struct {
	Node    Link    // between ranks of one node: each rank has a link of its own
	Network Link    // between nodes: the ranks of a node share one link in each direction
	Copy    float64 // bytes/s of a copy within a rank
	Reduce  float64 // bytes/s of the result of a reduction
	// Eager is the length in bytes up to which a message is sent without waiting for the receiver. A longer one costs two more
	// latencies.
	Eager int
}

// DefaultModel has typical values of a cluster with a network of 200 Gb/s. They were not measured on one.
var DefaultModel = Model{
	Node:    Link{200 * time.Nanosecond, 100 * time.Nanosecond, 10e9},
	Network: Link{1300 * time.Nanosecond, 200 * time.Nanosecond, 25e9},
	Copy:    10e9, Reduce: 8e9, Eager: 8 << 10,
}

func (m *Model) check() error {
	for name, l := range map[string]Link{"node": m.Node, "network": m.Network} {
		if l.Latency < 0 || l.Overhead < 0 || !(l.Bandwidth > 0) {
			return fmt.Errorf("simulate: the model of the %s has a negative time, or no bandwidth", name)
		}
	}
	if !(m.Copy > 0) || !(m.Reduce > 0) || m.Eager < 0 {
		return fmt.Errorf("simulate: the model needs bandwidths of copies and of reductions, and a length of eager messages")
	}
	return nil
}

// nanoseconds returns how long n bytes take.
func nanoseconds(n int, bandwidth float64) float64 { return float64(n) / bandwidth * 1e9 }
