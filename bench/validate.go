package bench

import "github.com/ibrun/ibrun/mpi"

// Data validation. Before each checked iteration the send buffers get a pattern that depends on the sender, the receiver, the
// position in the message and the iteration; the receive buffers are cleared.

// origin identifies a block of data: the one that rank `from` made for rank `block` (block 0 if all ranks get the same).
type origin struct{ from, block int }

// Where the blocks of the receive buffer come from; false where nothing arrives.

func fromPartner(r *runner, _ int) (origin, bool) { return origin{from: 1 - r.rank}, true }
func fromSender(r *runner, _ int) (origin, bool) {
	return origin{from: r.rank - r.ranks/2}, r.rank >= r.ranks/2
}
func fromRoot(*runner, int) (origin, bool) { return origin{from: root}, true }
func block0FromEach(_ *runner, b int) (origin, bool) {
	return origin{from: b}, true
}
func block0FromEachAtRoot(r *runner, b int) (origin, bool) { return origin{from: b}, r.rank == root }
func ownBlockFromRoot(r *runner, _ int) (origin, bool) {
	return origin{from: root, block: r.rank}, true
}
func ownBlockFromEach(r *runner, b int) (origin, bool) { return origin{from: b, block: r.rank}, true }

// How many ranks, from rank 0 on, are summed in this rank's result; 0 where there is no result.

func allRanks(r *runner) int        { return r.ranks }
func ranksUpToSelf(r *runner) int   { return r.rank + 1 }
func ranksBeforeSelf(r *runner) int { return r.rank }
func allRanksAtRoot(r *runner) int {
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

// fillBuffers writes this turn's pattern into the send buffer and clears the receive buffer.
func (r *runner) fillBuffers(op Op, turn int) {
	if op.Derived() {
		r.message.fill(r.rank, turn)
		return
	}
	if op.kind == reduction {
		clear(r.recvFloats)
		for i := range r.sendFloats {
			r.sendFloats[i] = float32(r.rank+1) * patternFloat(turn, i)
		}
		return
	}
	clear(r.recv[:r.size*op.recv.count(r.ranks)])
	if op.sharedBuffer && r.rank != root {
		return
	}
	for block := range op.send.count(r.ranks) {
		for i, b := 0, r.send[block*r.size:][:r.size]; i < len(b); i++ {
			b[i] = patternByte(origin{r.rank, block}, turn, i)
		}
	}
}

// countWrong counts the elements of the receive buffer that are not what this turn should have left there.
func (r *runner) countWrong(op Op, turn int) (n int) {
	if op.Derived() {
		return r.message.wrong(1-r.rank, turn)
	}
	if op.kind == reduction {
		return r.countWrongFloats(op, turn)
	}
	if op.source == nil {
		return 0
	}
	for block := range op.recv.count(r.ranks) {
		from, ok := op.source(r, block)
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

func (r *runner) countWrongFloats(op Op, turn int) (n int) {
	first, got := 0, r.recvFloats
	if op.Name == "reduce_scatter" || op.Name == "ireduce_scatter" {
		first, got = r.displs[r.rank], r.recvFloats[:r.counts[r.rank]]
	}
	summed := op.summedRanks(r)
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

// validatedIterations is the number of iterations that are checked before the measured ones.
const validatedIterations = 5

// validate runs checked turns and returns the wrong elements of this rank. The last pattern stays in the buffers,
// so that what the measured turns leave there can be checked once more.
func (r *runner) validate(op Op) (int, error) {
	total := 0
	for turn := range validatedIterations {
		r.fillBuffers(op, turn)
		if err := r.comm.Barrier(); err != nil {
			return total, err
		}
		if _, err := op.loop(r, 0, 1); err != nil {
			return total, err
		}
		total += r.countWrong(op, turn)
	}
	return total, nil
}

// sumOverRanks adds up n over all ranks, for all ranks.
func sumOverRanks(c *mpi.Comm, n int) (int, error) {
	sum := []int{0}
	err := mpi.Allreduce(c, sum, []int{n}, mpi.Sum)
	return sum[0], err
}
