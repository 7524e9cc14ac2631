package core

import (
	"errors"
	"sync/atomic"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// startedCollectives identifies the collectives of a communicator that this rank has started, and how often: the immediate and
// persistent ones and the Idups. It is the same at all ranks if they have started the same calls in the same order. Their roots
// and lengths do not count.
type startedCollectives struct{ sum atomic.Uint64 }

// add adds the start of a collective with messages of this tag.
func (s *startedCollectives) add(tag int32, call perf.Op) {
	h := uint64(tag) | uint64(comparedCall(call))<<32
	h *= 0x9e3779b97f4a7c15 // the sums of different collectives differ, as far as a hash can tell
	h = (h ^ h>>32) * 0x94d049bb133111eb
	s.sum.Add(h ^ h>>29)
}

// errDiffer says why collectives do not complete when their communicator is freed.
var errDiffer = errors.New("not all ranks have started the same immediate collectives, persistent collectives and Idups")

// agreeToFree blocks until all ranks free the communicator, and until the collectives in progress have completed. If the ranks have not started the same ones,
// some would never complete: then none is waited for, and they fail when the communicator ends; if calls are checked, agreeToFree
// fails. failed is the error of this rank; if any rank has one, agreeToFree fails at all.
func (c *Comm) agreeToFree(call perf.Op, failed error) error {
	same, err := c.newAgreement(call).agreeToFree(failed, c.started.sum.Load())
	switch {
	case err != nil:
		return err
	case !same && c.checks:
		return c.newError(call.String(), ErrOther, errDiffer)
	}
	if c.differ = !same; c.differ {
		return nil
	}
	c.idups.Wait()
	return c.wrapError(call.String(), c.engine.WaitContextIdle(call, c.contextID|collectiveBit))
}

// agreeToFree is agreeSuccess that also reports whether all ranks have the same value.
func (a *agreement) agreeToFree(failed error, value uint64) (same bool, err error) {
	// The maximum of the complements is the complement of the minimum.
	mine, all := [3]uint64{0, value, ^value}, [3]uint64{}
	if failed != nil {
		mine[0] = 1
	}
	err = a.allreduce(Bytes(all[:]), Bytes(mine[:]), datatype.Uint64, Max)
	return all[1] == ^all[2], a.success(failed, all[0] == 0, err)
}
