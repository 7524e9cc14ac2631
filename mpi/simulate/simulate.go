package simulate

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/reduction"
)

// Config describes a cluster.
type Config struct {
	Ranks        int
	RanksPerNode int   // 0: all ranks are on one node
	Cores        int   // of each node, which its ranks share; 0: each rank has its own
	Model        Model // the zero Model means DefaultModel
	// Memory is the largest number of bytes that a simulation may need, approximately; 0 means 4 GiB.
	Memory int64
	// Selected restricts the simulation to the algorithm that package mpi uses between nodes.
	Selected bool
}

// Result is the simulated run of a collective by one algorithm.
type Result struct {
	Collective string `json:"collective"`
	Algorithm  string `json:"algorithm"`
	// Bytes is the length of the buffer, or of the block from one rank to another in gather, scatter, allgather and alltoall, or
	// of all blocks in reduce_scatter.
	Bytes        int `json:"bytes"`
	Ranks        int `json:"ranks"`
	RanksPerNode int `json:"ranks_per_node"`
	// Selected says that ranks on several nodes use this algorithm if those of a node share no memory.
	Selected bool `json:"selected"`
	// Time is from the start, which is the same at all ranks, until the last rank has returned.
	Time time.Duration `json:"ns"`
	// Messages is the largest number of messages that a rank sends. Volume is the number of bytes that all ranks send.
	Messages int   `json:"messages"`
	Volume   int64 `json:"volume"`
	// Skipped is why the algorithm was not run; it is empty if it was.
	Skipped string `json:"skipped,omitempty"`
}

// Names returns the names of the collectives that can be simulated.
func Names() (names []string) {
	for c := coll.OfBarrier; c <= coll.OfReduceScatter; c++ {
		if len(coll.Algorithms(c, 2, coll.Messages)) != 0 {
			names = append(names, c.String())
		}
	}
	return names
}

const (
	defaultMemory = 4 << 30
	root          = 0
	// operationBytes is what a message in progress needs, approximately.
	operationBytes = 200
	// rankBytes is what a rank needs beside its buffers, approximately.
	rankBytes = 16 << 10
)

// Run simulates a collective of bytes by each of its algorithms, and checks the results of each.
func Run(cfg Config, name string, bytes int) (results []Result, err error) {
	if cfg.Model == (Model{}) {
		cfg.Model = DefaultModel
	}
	if cfg.RanksPerNode == 0 {
		cfg.RanksPerNode = cfg.Ranks
	}
	if cfg.Memory == 0 {
		cfg.Memory = defaultMemory
	}
	c, ok := coll.ParseCollective(name)
	if !ok || !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("simulate: unknown collective %q", name)
	}
	if cfg.Cores < 0 {
		return nil, fmt.Errorf("simulate: %d cores", cfg.Cores)
	}
	if cfg.Ranks < 2 || cfg.RanksPerNode < 1 || bytes < 0 || bytes == 0 && c != coll.OfBarrier {
		return nil, fmt.Errorf("simulate: %d ranks, %d on a node, %d bytes; want two ranks and one byte at least", cfg.Ranks,
			cfg.RanksPerNode, bytes)
	}
	if err := cfg.Model.check(); err != nil {
		return nil, err
	}
	family := collNodes(nodesOf(cfg.Ranks, cfg.RanksPerNode)).Family()
	chosen := coll.Choose(nil, c, bytes, cfg.Ranks, true, family).Algorithm
	for _, a := range coll.Algorithms(c, cfg.Ranks, family) {
		x := Result{Collective: name, Algorithm: a.String(), Bytes: bytes, Ranks: cfg.Ranks, RanksPerNode: cfg.RanksPerNode,
			Selected: a == chosen}
		if cfg.Selected && a != chosen {
			continue
		}
		if need := memoryOf(c, a, cfg.Ranks, bytes); need > cfg.Memory {
			x.Skipped = fmt.Sprintf("it needs %d MiB of memory", need>>20)
		} else if err := simulate(&cfg, c, a, &x); err != nil {
			return nil, fmt.Errorf("simulate: %s by %s: %w", name, a, err)
		}
		results = append(results, x)
	}
	return results, nil
}

// memoryOf returns approximately how many bytes a simulation needs.
func memoryOf(c coll.Collective, a coll.Algorithm, ranks, bytes int) int64 {
	n, length := int64(ranks), int64(bytes)
	switch {
	case c == coll.OfAlltoall && a == coll.Scattered:
		return n * (rankBytes + n*(2*length+2*operationBytes))
	case c == coll.OfAlltoall && a == coll.Pairwise, c == coll.OfAllgather && a != coll.Bruck:
		return n * (rankBytes + 2*n*length)
	case c == coll.OfAlltoall, c == coll.OfAllgather:
		return n * (rankBytes + 4*n*length)
	}
	return n * (rankBytes + 4*length)
}

// simulate runs one algorithm and sets what it has cost.
func simulate(cfg *Config, c coll.Collective, a coll.Algorithm, x *Result) error {
	sum, _ := reduction.Lookup(reduction.Sum, datatype.Uint8)
	op := &coll.Operation{Kernel: sum, ElemSize: 1, Commutative: true}
	w, err := run(cfg, func(p coll.Peer) error {
		d := newData(c, p.Rank(), p.Size(), x.Bytes)
		d.args.Op = op
		if err := coll.Run(p, c, a, &d.args); err != nil {
			return err
		}
		return d.check()
	})
	if err != nil {
		return err
	}
	for _, r := range w.ranks {
		x.Time = max(x.Time, time.Duration(r.now))
		x.Messages = max(x.Messages, r.messages)
		x.Volume += r.bytes
	}
	return nil
}

// data are the buffers of a rank.
type data struct {
	c          coll.Collective
	rank, size int
	bytes      int
	args       coll.Arguments
}

// value returns byte i of the block that rank from has for rank to; to is 0 if the block is for all.
func value(from, to, i int) byte { return byte(i*7 + from*31 + from>>8 + to*13 + to>>8) }

func block(from, to, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = value(from, to, i)
	}
	return b
}

// newData returns the buffers of a rank, filled.
func newData(c coll.Collective, rank, size, n int) *data {
	d := &data{c: c, rank: rank, size: size, bytes: n}
	x := &d.args
	x.Root = root
	switch c {
	case coll.OfBarrier:
	case coll.OfBcast:
		x.Src = make([]byte, n)
		if rank == root {
			x.Src = block(root, 0, n)
		}
	case coll.OfReduce, coll.OfAllreduce:
		x.Dst, x.Src = make([]byte, n), block(rank, 0, n)
	case coll.OfReduceScatter:
		x.Counts = make([]int, size)
		for i := range x.Counts {
			x.Counts[i] = (i+1)*n/size - i*n/size
		}
		x.Dst, x.Src = make([]byte, x.Counts[rank]), block(rank, 0, n)
	case coll.OfGather:
		if x.Src = block(rank, 0, n); rank == root {
			x.Dst = make([]byte, n*size)
		}
	case coll.OfAllgather:
		x.Dst, x.Src = make([]byte, n*size), block(rank, 0, n)
	case coll.OfScatter:
		if x.Dst = make([]byte, n); rank == root {
			x.Src = d.blocks(func(i int) (from, to int) { return root, i })
		}
	case coll.OfAlltoall:
		x.Dst, x.Src = make([]byte, n*size), d.blocks(func(i int) (from, to int) { return rank, i })
	}
	return d
}

// blocks returns a block for each rank i.
func (d *data) blocks(of func(i int) (from, to int)) []byte {
	b := make([]byte, 0, d.bytes*d.size)
	for i := range d.size {
		from, to := of(i)
		b = append(b, block(from, to, d.bytes)...)
	}
	return b
}

// sums returns the sums over all ranks of n bytes from byte first on.
func (d *data) sums(first, n int) []byte {
	base := 0
	for r := range d.size {
		base += r*31 + r>>8
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(base + d.size*(first+i)*7)
	}
	return b
}

// check compares the results of a rank with what they are to be.
func (d *data) check() error {
	got, want := d.args.Dst, []byte(nil)
	switch d.c {
	case coll.OfBcast:
		got, want = d.args.Src, block(root, 0, d.bytes)
	case coll.OfReduce, coll.OfAllreduce:
		if want = d.sums(0, d.bytes); d.c == coll.OfReduce && d.rank != root {
			return nil
		}
	case coll.OfReduceScatter:
		want = d.sums(d.rank*d.bytes/d.size, len(got))
	case coll.OfGather, coll.OfAllgather:
		if d.c == coll.OfAllgather || d.rank == root {
			want = d.blocks(func(i int) (from, to int) { return i, 0 })
		}
	case coll.OfScatter:
		want = block(root, d.rank, d.bytes)
	case coll.OfAlltoall:
		want = d.blocks(func(i int) (from, to int) { return i, d.rank })
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("the result of rank %d is wrong", d.rank)
	}
	return nil
}
