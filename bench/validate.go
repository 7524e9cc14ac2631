package bench

import "github.com/ibrun/ibrun/mpi"

// Data validation. Before each turn that is checked the send buffers get a pattern that depends on the rank, on the
// rank it is meant for, on the place in the message and on the turn; the receive buffers are cleared.

// origin names the block of data that belongs in a place: that which rank `from` made for rank `block` (block 0 where
// everyone gets the same).
type origin struct{ from, block int }

// Where the blocks of the receive buffer come from; false where nothing arrives.

func fromOther(r *rig, _ int) (origin, bool) { return origin{from: 1 - r.rank}, true }
func fromSender(r *rig, _ int) (origin, bool) {
	return origin{from: r.rank - r.ranks/2}, r.rank >= r.ranks/2
}
func fromRoot(*rig, int) (origin, bool) { return origin{from: root}, true }
func firstOfEach(_ *rig, b int) (origin, bool) {
	return origin{from: b}, true
}
func firstOfEachAtRoot(r *rig, b int) (origin, bool) { return origin{from: b}, r.rank == root }
func mineFromRoot(r *rig, _ int) (origin, bool)      { return origin{from: root, block: r.rank}, true }
func mineOfEach(r *rig, b int) (origin, bool)        { return origin{from: b, block: r.rank}, true }

// How many ranks, from rank 0 on, are summed in this rank's result; 0 where there is no result.

func everyone(r *rig) int { return r.ranks }
func upToMe(r *rig) int   { return r.rank + 1 }
func beforeMe(r *rig) int { return r.rank }
func allAtRoot(r *rig) int {
	if r.rank == root {
		return r.ranks
	}
	return 0
}

// patternByte is byte i of a block.
func patternByte(o origin, turn, i int) byte {
	h := uint32(i+1)*2654435761 + uint32(o.from)*40503 + uint32(o.block)*9973 + uint32(turn)*7919
	return byte(h >> 11)
}

// patternFloat is element i of rank 0's vector; rank r has r+1 times as much. The numbers are whole and small, so
// that sums over a thousand ranks are exact in any order.
func patternFloat(turn, i int) float32 {
	return float32((uint32(i)+uint32(turn)*977+1)*2654435761>>28 + 1)
}

// fill writes this turn's pattern into the send buffer and clears the receive buffer.
func (r *rig) fill(op Op, turn int) {
	if op.kind == reduction {
		clear(r.recvFloats)
		for i := range r.sendFloats {
			r.sendFloats[i] = float32(r.rank+1) * patternFloat(turn, i)
		}
		return
	}
	clear(r.recv[:r.size*op.recv.count(r.ranks)])
	if op.oneBuf && r.rank != root {
		return
	}
	for block := range op.send.count(r.ranks) {
		for i, b := 0, r.send[block*r.size:][:r.size]; i < len(b); i++ {
			b[i] = patternByte(origin{r.rank, block}, turn, i)
		}
	}
}

// wrong counts the elements of the receive buffer that are not what this turn should have left there.
func (r *rig) wrong(op Op, turn int) (n int) {
	if op.kind == reduction {
		return r.wrongFloats(op, turn)
	}
	if op.arrives == nil {
		return 0
	}
	for block := range op.recv.count(r.ranks) {
		from, ok := op.arrives(r, block)
		if !ok {
			continue
		}
		for i, b := range r.recv[block*r.size:][:r.size] {
			if b != patternByte(from, turn, i) {
				n++
			}
		}
	}
	return n
}

func (r *rig) wrongFloats(op Op, turn int) (n int) {
	first, got := 0, r.recvFloats
	if op.Name == "reduce_scatter" {
		first, got = r.displs[r.rank], r.recvFloats[:r.counts[r.rank]]
	}
	summed := op.prefixOf(r)
	if summed == 0 {
		return 0
	}
	times := float32(summed * (summed + 1) / 2)
	for i, x := range got {
		if x != times*patternFloat(turn, first+i) {
			n++
		}
	}
	return n
}

// validatedTurns is how many turns are checked one by one before the measured ones.
const validatedTurns = 5

// validate runs checked turns and returns the wrong elements of this rank. The last pattern stays in the buffers,
// so that what the measured turns leave there can be checked once more.
func (r *rig) validate(op Op) (int, error) {
	total := 0
	for turn := range validatedTurns {
		r.fill(op, turn)
		if err := r.comm.Barrier(); err != nil {
			return total, err
		}
		if _, err := op.loop(r, 0, 1); err != nil {
			return total, err
		}
		total += r.wrong(op, turn)
	}
	return total, nil
}

// sumOverRanks adds up n over all ranks, for all ranks.
func sumOverRanks(c *mpi.Comm, n int) (int, error) {
	sum := []int{0}
	err := mpi.Allreduce(c, sum, []int{n}, mpi.Sum)
	return sum[0], err
}
