package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// segmentWrapper is a transport whose segments are replaced by what wrap returns.
type segmentWrapper struct {
	fabric.Transport
	wrap func(self int, s fabric.Segment) fabric.Segment
}

func (x segmentWrapper) Open(ctx context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	d, err := x.Transport.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	m, ok := d.(fabric.SharedMemory)
	if !ok {
		return nil, errors.New("the transport shares no memory")
	}
	return &segmentDomain{d, m, cfg.Self, x.wrap}, nil
}

type segmentDomain struct {
	fabric.Domain
	fabric.SharedMemory
	self int
	wrap func(self int, s fabric.Segment) fabric.Segment
}

func (d *segmentDomain) Segment(id uint64, peers []int, bytes int) (fabric.Segment, error) {
	s, err := d.SharedMemory.Segment(id, peers, bytes)
	if err != nil {
		return nil, err
	}
	return d.wrap(d.self, s), nil
}

// wrapSegments returns options that replace the segments of a rank by what wrap returns. The ranks share memory, also when the
// other tests use TCP.
func wrapSegments(t *testing.T, wrap func(self int, s fabric.Segment) fabric.Segment) mpitest.Options {
	t.Setenv("IBRUN_TRANSPORT", "")
	return mpitest.Options{Wrap: func(tr fabric.Transport) fabric.Transport { return segmentWrapper{tr, wrap} }}
}

// shortSegment is a segment of which only some parts can be allocated.
type shortSegment struct {
	fabric.Segment
	left int
}

var errShort = errors.New("memory is short")

func (s *shortSegment) Allocate(part []byte) error {
	if s.left == 0 {
		return errShort
	}
	s.left--
	return s.Segment.Allocate(part)
}

// TestSegmentShort: a rank that gets no memory for the words of a segment makes all ranks use messages. One that gets no more
// later fails, and no other rank waits for it for ever.
func TestSegmentShort(t *testing.T) {
	for name, call := range map[string]func(*mpi.Comm) error{
		"blocking": func(c *mpi.Comm) error { return mpi.Allreduce(c, make([]int64, 100), make([]int64, 100), mpi.Sum) },
		"immediate": func(c *mpi.Comm) error {
			r, err := mpi.Iallreduce(c, make([]int64, 100), make([]int64, 100), mpi.Sum)
			if err == nil {
				_, err = r.Wait()
			}
			return err
		},
	} {
		for parts := range 3 {
			t.Run(fmt.Sprintf("%s/%d", name, parts), func(t *testing.T) { testSegmentShort(t, parts, call) })
		}
	}
}

// testSegmentShort calls collectives of which rank 1 can allocate some parts.
func testSegmentShort(t *testing.T, parts int, call func(*mpi.Comm) error) {
	o := wrapSegments(t, func(self int, s fabric.Segment) fabric.Segment {
		if self == 1 {
			return &shortSegment{s, parts}
		}
		return s
	})
	mpitest.RunWith(t, 3, o, func(p *mpi.Process) error {
		w := p.World()
		if err := w.Barrier(); err != nil {
			return err
		}
		var err error
		for range 40 { // more than there are slots
			if err = call(w); err != nil {
				break
			}
		}
		if parts == 0 {
			return err
		}
		return check(err != nil && (w.Rank() != 1 || errors.Is(err, errShort)), "the collectives of rank %d: %w", w.Rank(), err)
	})
}

// TestSegmentsOnDemand: ranks share memory for a communicator when they make a collective on it, and not to create or free it.
func TestSegmentsOnDemand(t *testing.T) {
	var n atomic.Int64
	o := wrapSegments(t, func(_ int, s fabric.Segment) fabric.Segment {
		n.Add(1)
		return s
	})
	mpitest.RunWith(t, 3, o, func(p *mpi.Process) error {
		w := p.World()
		d, err := w.Dup()
		if err != nil {
			return err
		}
		s, err := d.Split(w.Rank()%2, 0)
		if err != nil {
			return err
		}
		e, r, err := w.Idup()
		if err != nil {
			return err
		}
		_, err = r.Wait()
		if err := errors.Join(err, s.Free(), e.Free(), d.Free()); err != nil {
			return err
		}
		if w.Rank() == 0 { // the others wait for it, so none has called Barrier
			err = check(n.Load() == 0, "%d segments were mapped before the first collective", n.Load())
			for r := 1; r < w.Size(); r++ {
				err = errors.Join(err, mpi.Send(w, []byte(nil), r, 0))
			}
		} else {
			_, err = mpi.Recv(w, []byte(nil), 0, 0)
		}
		if err != nil {
			return err
		}
		if err := w.Barrier(); err != nil {
			return err
		}
		return check(n.Load() == 3, "%d segments were mapped by the first collective of 3 ranks", n.Load())
	})
}
