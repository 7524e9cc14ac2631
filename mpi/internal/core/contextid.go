package core

import (
	"encoding/binary"
	"errors"

	"github.com/ibrun/ibrun/mpi/internal/core/internal/contextids"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// A context number consists of, from the lowest bit: collectiveBit, which separates collectives
// from point-to-point messages; the communicator's id; and the generation of the id, which counts
// its uses. See proto.ContextBits.
const collectiveBit = 1

// Ids of communicators that are the same in all processes without an agreement.
const (
	worldID       = iota
	selfID        // carries no messages between processes
	groupCreateID // not a communicator: control messages of creation from groups
	initID        // temporary communicator of all processes at initialisation
	reservedIDs   // number of reserved ids
)

// finalizeContext is the context of another temporary communicator of all processes, for the
// barrier of Finalize. It is the next generation of the one at initialisation.
const finalizeContext = 1<<proto.ContextBits | initID<<1

var (
	errNoContextID   = errors.New("all context ids are in use: free some communicators")
	errOtherRank     = errors.New("it failed at another rank")
	errNegativeColor = errors.New("a color is not negative, or Undefined")
)

// idOf returns the id in a context number.
func idOf(ctx uint32) uint32 { return ctx & (1<<proto.ContextBits - 1) >> 1 }

// groupCreateContext is the context of the messages of package creation.
const groupCreateContext = groupCreateID << 1

// allocContextID agrees with all ranks on a context that none of them uses. Only ranks with keep
// will use it. The caller must know that all ranks are about to call it, which holds after a
// collective in which every rank waited for every other. Otherwise a rank that calls it early would
// block other ranks that must create other communicators first.
func (a *agreement) allocContextID(keep bool) (uint32, error) {
	s, priority := &a.comm.proc.contextIDs, uint64(a.comm.contextID)<<32|uint64(a.idupSeq)
	if a.creation != nil {
		id := a.creation.ID()
		priority = binary.NativeEndian.Uint64(id[:])
	}
	s.Begin(priority)
	defer s.End(priority)
	const words = contextids.Words
	for {
		// The last word is 1 if all ranks offered their ids.
		var mine, all [words + 1]uint64
		offered := s.Offer(priority, mine[:words])
		if offered {
			mine[words] = 1
		}
		err := a.allreduce(Bytes(all[:]), Bytes(mine[:]), datatype.Uint64, Band)
		if err == nil && all[words] == 1 {
			return a.commitContextID(all[:words], keep)
		}
		// Another agreement of this process may be the one for which the others wait, so the ids
		// must be free for its offer.
		if offered {
			s.Withdraw()
		}
		if err == nil {
			err = a.awaitTurns(priority)
		}
		if err != nil {
			return 0, err
		}
	}
}

// awaitTurns blocks until it is this agreement's turn at each rank, or was a moment ago. A rank
// that offered its ids while another rank still waits could block the agreement for which that one
// waits.
func (a *agreement) awaitTurns(priority uint64) error {
	a.comm.proc.contextIDs.Await(priority)
	_, err := a.andBits(1)
	return err
}

// commitContextID takes the lowest common id, in a generation that is new to all ranks.
func (a *agreement) commitContextID(common []uint64, keep bool) (uint32, error) {
	s := &a.comm.proc.contextIDs
	id, generation, ok := s.Take(common)
	if !ok {
		return 0, a.comm.newError(a.op, ErrOther, errNoContextID)
	}
	number := id << 1
	a.comm.engine.Contexts().Expect(number)
	a.comm.engine.Contexts().Expect(number | collectiveBit)
	mine, newest := [1]uint32{generation}, [1]uint32{}
	if err := a.allreduce(Bytes(newest[:]), Bytes(mine[:]), datatype.Uint32, Max); err != nil {
		return 0, err
	}
	ctx := newest[0]<<proto.ContextBits | number
	a.comm.engine.Contexts().Agreed(ctx, keep)
	a.comm.engine.Contexts().Agreed(ctx|collectiveBit, keep)
	s.Settle(id, newest[0])
	// A rank that gets no communicator has taken part, since its ids counted. It may use the id
	// again in the next generation.
	if !keep {
		s.Free(id)
	}
	return ctx, nil
}
