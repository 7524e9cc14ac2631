package coll

import "encoding/binary"

// If each rank has a core, and the ranks are on several NUMA nodes, some collectives have two levels: the ranks of a NUMA node,
// and the first rank of each, its leader. Few cache lines then go from one NUMA node to another, which takes longer than between
// cores of the same. numaFromRanks says which collectives gain.
//
// They use places in the memory that belongs to no rank, which is otherwise used if ranks share cores. A place is a word, a
// description of the call and room for data, as in a slot. Each NUMA node has three. In two of them, by turns, its leader
// publishes the sum of the node for the other leaders. A leader that writes such a place again has met all leaders in the
// collective between, so they have read it. In place 0 it publishes the result for the ranks of its node. They all
// have arrived before, so they have read the result of the collective before.

const (
	numaPlaces = 3                      // of a NUMA node
	placeBytes = resultBytes / maxSlots // bytes of data in a place

	// numaFromRanks is the number of ranks from which two levels are used. What counts are the lines that cross between NUMA nodes.
	// Let n ranks be on k NUMA nodes, n/k on each. In a Barrier or an Allreduce on one level, each rank reads a line of each of
	// n - n/k ranks: n * (n - n/k) transfers, and still n * (k-1) if the cores of a NUMA node fetch a line once. On two levels
	// there are k * (k-1). In a Reduce, the root reads n - n/k operands of other NUMA nodes, and on two levels k-1, each after a
	// word in another line.
	//
	// The price is two more steps, within a NUMA node. A core has some 10 lines under way at the same time, so up to that number of
	// lines takes as long as one. With 16 ranks in equal parts a rank reads at least 8 lines of others.
	//
	// A Bcast gains nothing: all ranks read the same lines, and the cores of a NUMA node get them from each other after the first.
	// In the other collectives all data cross anyway, and there are more of them than words.
	numaFromRanks = 16
)

// FindNUMA lets collectives use two levels if the ranks are on several NUMA nodes. numa is the number of this rank's; -1 if it is
// unknown, or the rank may run on several. FindNUMA is a collective.
func (f *Shm) FindNUMA(numa int) error {
	if f.Oversubscribed || f.Size < numaFromRanks && f.Table == nil { // oversubscribed: the time is that of context switches
		return nil
	}
	const length = 4
	all := make([]byte, f.Size*length)
	if err := f.Allgather(all, binary.NativeEndian.AppendUint32(nil, uint32(numa))); err != nil {
		return err
	}
	of := make([]int32, f.Size)
	for r := range of {
		if of[r] = int32(binary.NativeEndian.Uint32(blockAt(all, r, length))); of[r] < 0 {
			return nil
		}
	}
	n := NewNodes(of)
	if n == nil || len(n.ranks)*numaPlaces > maxSlots {
		return nil
	}
	f.numa = n
	return f.allocateResult()
}

// usesNUMA reports whether a collective of n bytes has two levels. It is called if numa is not nil. op is nil unless the
// collective is a reduction.
func (f *Shm) usesNUMA(c Collective, n int, op *Operation) bool {
	if f.Select(c, n) != SharedTwoLevel {
		return false
	}
	return op == nil || (op.Commutative || f.numa.consecutive) && op.ElemSize <= placeBytes
}

// place returns the offset of the word of a place of a NUMA node, and n bytes of its data.
func (f *Shm) place(node, number, n int) (head int, data []byte) {
	words := line + f.Size*line + f.Size*int(f.slots)*line
	i := node*numaPlaces + number
	head = words + i*line
	at := head + line - inlineBytes
	if n > inlineBytes {
		at = words + maxSlots*line + i*placeBytes
	}
	return head, f.Mem[at : at+n : at+n]
}

// allreduceNUMA is Allreduce on two levels, for data of any length.
//
// Cost: that of three cache lines from one core to another, one of them between NUMA nodes, and (n/k + k) * m*g.
func (f *Shm) allreduceNUMA(dst, src []byte, op *Operation) error {
	most := placeBytes - placeBytes%op.ElemSize
	for off := 0; off < len(src); off += most {
		n := min(most, len(src)-off)
		if err := f.synchronizeNUMA(dst[off:off+n], src[off:off+n], op); err != nil {
			return err
		}
	}
	return nil
}

// synchronizeNUMA does a step in which all ranks wait for all, and combines the src of all into dst of each. A place has room for
// src, which is empty in a Barrier. As on one level, each rank publishes its call before it waits, for ranks with other calls.
func (f *Shm) synchronizeNUMA(dst, src []byte, op *Operation) error {
	if err := f.beginStep(len(src)); err != nil {
		return err
	}
	node := int(f.numa.node[f.Rank])
	leader := int(f.numa.ranks[node][0])
	head, result := f.place(node, 0, len(src))
	if f.Rank != leader {
		copy(f.data(f.Rank, len(src)), src)
	}
	f.publish()
	f.synced = f.step
	if f.Rank == leader {
		if err := f.exchangeNUMA(node, result, src, op); err != nil {
			return err
		}
		f.publishAt(head)
	} else if err := f.awaitPlace(leader, head); err != nil {
		return err
	}
	copy(dst, result)
	return nil
}

// exchangeNUMA combines the src of all ranks into result: it waits for the ranks of this NUMA node, of which this rank is the
// leader, and then for the other leaders.
func (f *Shm) exchangeNUMA(node int, result, src []byte, op *Operation) error {
	f.exchanges++
	turn := 1 + int(f.exchanges%(numaPlaces-1))
	head, sum := f.place(node, turn, len(src))
	if err := f.reduceNode(sum, src, op); err != nil {
		return err
	}
	f.publishAt(head)
	for other, ranks := range f.numa.ranks {
		if other == node {
			continue
		}
		head, _ := f.place(other, turn, 0)
		if err := f.awaitPlace(int(ranks[0]), head); err != nil {
			return err
		}
	}
	combineAll(result, len(f.numa.ranks), op, func(i int) []byte {
		_, sum := f.place(i, turn, len(src))
		return sum
	})
	return nil
}

// awaitPlace blocks until a leader has published a place. A leader with another call may never do that, but publishes that call
// in its slot. So if the place takes long, awaitPlace looks there first.
func (f *Shm) awaitPlace(leader, head int) error {
	if !spin(word(f.Mem, head), f.step, spinPolls) {
		if err := f.awaitRank(leader); err != nil {
			return err
		}
	}
	return f.awaitAt(leader, head)
}

// reduceNUMA is Reduce on two levels. The leader of the root's NUMA node is the root. The other ranks wait for it only if src is
// longer than all their slots.
//
// A leader publishes its call before it waits, as in synchronizeNUMA. So the word of its slot does not say that the sum of its
// NUMA node is there: the word for ended steps does.
//
// Cost: that of two cache lines from one core to another, one of them between NUMA nodes, and (n/k + k) * m*g.
func (f *Shm) reduceNUMA(dst, src []byte, op *Operation, root int) error {
	most, node := f.wholeElements(op), int(f.numa.node[f.Rank])
	if f.Rank != f.numa.leader(node, root) {
		return f.publishBuffer(src, most)
	}
	for off := 0; off < len(src); off += most {
		n := min(most, len(src)-off)
		if err := f.beginStep(n); err != nil {
			return err
		}
		f.publish()
		err := f.reduceNode(f.data(f.Rank, n), src[off:off+n], op)
		if err == nil && f.Rank == root {
			err = f.reduceLeaders(dst[off:off+n], node, op)
		}
		if err != nil {
			return err
		}
		f.endStep()
	}
	return nil
}

// reduceNode waits for the other ranks of this NUMA node, and combines their slots and src.
func (f *Shm) reduceNode(sum, src []byte, op *Operation) error {
	ranks := f.numa.Beside(f.Rank)
	f.pauseOnce()
	for _, r := range ranks {
		if int(r) != f.Rank {
			if err := f.awaitAt(int(r), f.headOffset(int(r))); err != nil {
				return err
			}
		}
	}
	combineAll(sum, len(ranks), op, func(i int) []byte {
		if r := int(ranks[i]); r != f.Rank {
			return f.data(r, len(src))
		}
		return src
	})
	return nil
}

// reduceLeaders waits for the leaders of the other NUMA nodes, if this rank is the root, and combines the slots of all leaders.
func (f *Shm) reduceLeaders(dst []byte, node int, op *Operation) error {
	for other := range f.numa.ranks {
		if other == node {
			continue
		}
		leader := f.numa.leader(other, f.Rank)
		ended := f.endedWord(leader)
		spin(ended, f.step, spinPolls) // the slot changes until then, so its line would be fetched twice
		err := f.awaitRank(leader)
		if err == nil {
			err = f.wait(leader, ended, f.step)
		}
		if err != nil {
			return err
		}
	}
	combineAll(dst, len(f.numa.ranks), op, func(i int) []byte { return f.data(f.numa.leader(i, f.Rank), len(dst)) })
	return nil
}
