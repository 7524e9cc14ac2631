package core

import (
	"math/bits"

	"github.com/ibrun/ibrun/mpi/internal/core/internal/contextids"
)

// Elsewhere simulates that this process has created and freed communicators, possibly with others, n times under each
// id that is not in use.
func (p *Process) Elsewhere(n uint32) {
	var unused [contextids.Words]uint64
	s := &p.contextIDs
	s.Offer(0, unused[:])
	for i, w := range unused {
		for ; w != 0; w &= w - 1 {
			var one [contextids.Words]uint64
			one[i] = 1 << bits.TrailingZeros64(w)
			id, generation, _ := s.Take(one[:])
			s.Settle(id, generation-1+n)
			s.Free(id)
		}
	}
}
