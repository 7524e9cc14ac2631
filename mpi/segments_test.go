package mpi_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// segmentCounter is a transport that counts the segments which ranks map.
type segmentCounter struct {
	fabric.Transport
	n *atomic.Int64
}

func (c segmentCounter) Open(ctx context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	d, err := c.Transport.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	m, ok := d.(fabric.SharedMemory)
	if !ok {
		return nil, errors.New("the transport shares no memory")
	}
	return &segmentDomain{d, m, c.n}, nil
}

type segmentDomain struct {
	fabric.Domain
	fabric.SharedMemory
	n *atomic.Int64
}

func (d *segmentDomain) Segment(id uint64, peers []int, bytes int) (fabric.Segment, error) {
	s, err := d.SharedMemory.Segment(id, peers, bytes)
	if err == nil {
		d.n.Add(1)
	}
	return s, err
}

// TestSegmentsOnDemand: ranks share memory for a communicator when they make a collective on it, and not to create or free it.
func TestSegmentsOnDemand(t *testing.T) {
	var n atomic.Int64
	o := mpitest.Options{Wrap: func(tr fabric.Transport) fabric.Transport { return segmentCounter{tr, &n} }}
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
