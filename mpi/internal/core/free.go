package core

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ibrun/ibrun/mpi/internal/core/internal/checking"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// Free releases the communicator.
func (c *Comm) Free() error {
	a, err := begin(c, perf.Free, c.checkFreeable(perf.Free.String()))
	if err != nil {
		return err
	}
	defer a.end()
	return a.free()
}

// Disconnect is Free that first waits for all messages: those that this rank has started to send
// and to receive.
func (c *Comm) Disconnect() error {
	a, err := begin(c, perf.Disconnect, c.checkFreeable(perf.Disconnect.String()))
	if err != nil {
		return err
	}
	defer a.end()
	err = c.engine.Contexts().WaitIdle(perf.Disconnect, c.contextID)
	if err == nil {
		err = c.engine.Contexts().WaitPartitionedIdle(perf.Disconnect, c.contextID|collectiveBit)
	}
	if err != nil {
		return c.wrapError(a.op, err)
	}
	return a.free()
}

// checkFreeable returns an error for a communicator that cannot be freed.
func (c *Comm) checkFreeable(op string) error {
	if err := c.checkUsable(op); err != nil {
		return err
	}
	// Finalize needs both: its barrier is one of the processes of World, and it deletes the
	// attributes of Self first.
	if c == c.proc.world || c == c.proc.self {
		return c.newError(op, ErrComm, fmt.Errorf("World and Self cannot be freed"))
	}
	if c.copying.Load() != 0 {
		return c.newError(op, ErrComm, fmt.Errorf("the communicator is being duplicated"))
	}
	return nil
}

// startedCollectives identifies the collectives of a communicator that this rank has started, and
// how often: the immediate and persistent ones and the Idups. It is the same at all ranks if they
// have started the same calls in the same order. Their roots and lengths do not count: if calls are
// checked, each call compares its own.
type startedCollectives struct{ sum atomic.Uint64 }

// add adds the start of a collective with messages of this tag.
func (s *startedCollectives) add(tag int32, call perf.Op) {
	h := uint64(tag) | uint64(checking.Compared(call))<<32
	h *= 0x9e3779b97f4a7c15 // the sums of different collectives differ, as far as a hash can tell
	h = (h ^ h>>32) * 0x94d049bb133111eb
	s.sum.Add(h ^ h>>29)
}

// The states of ranks that free a communicator. The ranks compute the maximum.
const (
	freeReady    = iota
	freeReceives // it has receives whose messages may be on their way
	freeFailed
)

// errDiffer says why collectives do not complete when their communicator is freed.
var errDiffer = errors.New("not all ranks have started the same immediate collectives, persistent collectives and Idups")

// free deletes the attributes, agrees with the other ranks that every callback succeeded, waits for
// collectives, and releases the communicator.
func (a *agreement) free() error {
	c, op := a.comm, a.op
	if !c.freeing.CompareAndSwap(false, true) {
		return c.newError(op, ErrComm, fmt.Errorf("the communicator is being freed"))
	}
	defer c.freeing.Store(false)
	if err := a.agreeToFree(c.wrapError(op, c.attrs.Clear())); err != nil {
		return err
	}
	// Idups that cannot complete wait for messages in these contexts. They end with the release, so
	// they are waited for after it.
	err := c.release(op, commFreed, c.engine.Contexts().Free)
	c.coll.idups.Wait()
	return c.wrapError(op, err)
}

// agreeToFree blocks until all ranks free the communicator. Then it waits for the messages that
// were sent before, as far as receives wait for them, and for the collectives in progress. If the
// ranks have not started the same ones, some would never complete. Then agreeToFree waits for none,
// and they fail when the communicator ends; if calls are checked, agreeToFree fails. failed is the
// error of this rank; if any rank has one, agreeToFree fails at all ranks.
func (a *agreement) agreeToFree(failed error) error {
	c := a.comm
	partitioned := c.contextID | collectiveBit
	mine := uint64(freeReady)
	switch {
	case failed != nil:
		mine = freeFailed
	// This must come before the agreement: it finds the receives whose messages may be on their
	// way.
	case c.engine.PrepareFlush(c.contextID, partitioned):
		mine = freeReceives
	}
	all, same, err := a.compareStarted(mine, c.coll.started.sum.Load())
	switch err = a.success(failed, all != freeFailed, err); {
	case err != nil:
		return err
	case !same && c.checks:
		return c.newError(a.op, ErrOther, errDiffer)
	}
	if all == freeReceives {
		// Each rank answers the others until all have what was sent to them.
		err := c.wrapError(a.op, c.engine.Flush(a.call, c.contextID, partitioned))
		if err = a.agreeSuccess(err); err != nil {
			return err
		}
	}
	// same has the same value at all ranks, so all of them wait here or none does.
	if c.coll.differ = !same; c.coll.differ {
		return nil
	}
	c.coll.idups.Wait()
	return c.wrapError(a.op, c.engine.Contexts().WaitIdle(a.call, partitioned))
}

// compareStarted blocks until all ranks have called it. It returns the maximum of their states, and
// reports whether they have started the same collectives.
func (a *agreement) compareStarted(state, started uint64) (all uint64, same bool, err error) {
	// The maximum of the complements is the complement of the minimum.
	mine, most := [3]uint64{state, started, ^started}, [3]uint64{}
	err = a.allreduce(Bytes(most[:]), Bytes(mine[:]), datatype.Uint64, Max)
	return most[0], most[1] == ^most[2], err
}

// leave ends this rank's part in the communicator. What other ranks still expect of it fails.
func (c *Comm) leave() {
	c.engine.Contexts().Leave(c.contextID)
	c.engine.Contexts().Leave(c.contextID | collectiveBit)
}

// release ends the communicator at this rank and gives it its final state. What is in progress
// fails, unless its message has been matched. end ends the contexts: it is Contexts.Free if all
// ranks have agreed, or End after leave.
func (c *Comm) release(op string, state uint32, end func(context uint32, err error)) error {
	if !c.state.CompareAndSwap(commReady, state) {
		return c.newError(op, ErrComm, errors.New("the communicator has already been freed"))
	}
	end(c.contextID, endings[state])
	end(c.contextID|collectiveBit, c.coll.ending(state))
	// The id is freed last: another communicator may get it at once, and then nothing of this one
	// may be found under it.
	c.engine.Recording().NameContext(c.contextID, "")
	c.proc.comms.remove(c)
	err := c.coll.main.closeSharedMemory()
	c.proc.contextIDs.Free(idOf(c.contextID))
	return err
}

// releaseAfter is release after an exchange in which all ranks agree to it. If the exchange has
// failed at this rank, others may still need it: then it leaves.
func (c *Comm) releaseAfter(exchange error, op string, state uint32) error {
	end := c.engine.Contexts().Free
	if exchange != nil {
		c.leave()
		end = c.engine.Contexts().End
	}
	return join(exchange, c.release(op, state, end))
}

// ending says why a collective of a communicator in its final state cannot complete.
func (cs *Collectives) ending(state uint32) error {
	if cs.differ {
		return fmt.Errorf("%w, and %w", endings[state], errDiffer)
	}
	return endings[state]
}

// endings say why a communicator in its final state cannot be used.
var endings = [...]error{
	commFreed:         proto.ErrFreed,
	commFinalized:     fmt.Errorf("%w: Finalize was called", proto.ErrFreed),
	commSessionClosed: fmt.Errorf("%w: its session has been closed", proto.ErrFreed),
}
