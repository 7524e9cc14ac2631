package verbs

import (
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// SRQ is a shared receive queue: several queue pairs can take their receives from it. Its methods may be called by any
// goroutine at any time.
type SRQ struct {
	base
	ib    ib.SRQ
	token uint64

	q recvQueue
}

// SRQConfig describes a shared receive queue to create.
type SRQConfig struct {
	MaxRecv    int // receives queued at the same time
	MaxRecvSGE int // entries of their scatter lists, 0 means 1
	Limit      int // EventSRQLimit is raised when fewer receives are queued; 0 means never. It is raised once, see SetLimit
}

// CreateSRQ creates a shared receive queue.
func (pd *PD) CreateSRQ(cfg SRQConfig) (*SRQ, error) {
	const op = "create a shared receive queue"
	if cfg.MaxRecv < 1 || cfg.MaxRecvSGE < 0 || cfg.Limit < 0 || cfg.Limit > cfg.MaxRecv {
		return nil, pd.refuse(op, ErrInvalid, "MaxRecv %d, MaxRecvSGE %d, Limit %d", cfg.MaxRecv, cfg.MaxRecvSGE, cfg.Limit)
	}
	s := &SRQ{base: pd.ctx.newBase(kindSRQ, &pd.base)}
	s.onDeviceLost = s.deviceLost
	err := s.open(op, s.Close, func() (err error) {
		if s.ib, err = pd.ib.CreateSRQ(uint32(cfg.MaxRecv), uint32(max(cfg.MaxRecvSGE, 1)), uint32(cfg.Limit)); err != nil {
			return err
		}
		_, sge := s.ib.Cap()
		s.q.shared, s.q.base, s.q.ib, s.q.sge = true, &s.base, s.ib, make([]ib.SGE, sge)
		s.q.open.Store(true)
		if r, ok := s.ib.(ib.HasRecvRing); ok {
			s.q.ring = r.RecvRing()
		}
		s.num, s.token = s.ib.Num(), s.ib.Token()
		pd.ctx.register(s.token, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Cap returns how many receives can be queued, and how many entries the scatter list of each can have.
func (s *SRQ) Cap() (wr, sge int) {
	w, g := s.ib.Cap()
	return int(w), int(g)
}

// Recv queues a receive: a message is written to the memory that the list names and makes a completion with this ID. The device
// sees it immediately. Recv returns [ErrFull] if the queue is full.
func (s *SRQ) Recv(id uint64, sge ...SGE) error { return s.q.post(id, sge) }

// RecvList is [QP.RecvList] of the shared queue.
func (s *SRQ) RecvList(list []Receive) (int, error) { return s.q.postAll(list) }

// SetLimit requests [EventSRQLimit] when fewer than n receives are queued. The event is raised once. Then the limit is 0 again.
func (s *SRQ) SetLimit(n int) error { return s.modify(uverbs.SRQAttrLimit, 0, n) }

// Resize changes the capacity of the queue to at least n receives. It returns [ErrNotSupported] if the device cannot.
func (s *SRQ) Resize(n int) error {
	s.q.mu.Lock() // the device moves the queued receives
	defer s.q.mu.Unlock()
	return s.modify(uverbs.SRQAttrMaxWR, n, 0)
}

func (s *SRQ) modify(mask uverbs.SRQAttrMask, wr, limit int) error {
	const op = "modify the shared receive queue"
	if err := s.enter(op); err != nil {
		return err
	}
	defer s.leave()
	if wr < 0 || limit < 0 {
		return s.refuse(op, ErrInvalid, "%d receives, limit %d", wr, limit)
	}
	return s.fail(op, s.ib.Modify(uint32(mask), uint32(wr), uint32(limit)))
}

// Query returns the capacity of the queue, the maximum number of entries of a scatter list, and the limit.
func (s *SRQ) Query() (wr, sge, limit int, err error) {
	const op = "query the shared receive queue"
	if err := s.enter(op); err != nil {
		return 0, 0, 0, err
	}
	defer s.leave()
	w, g, l, err := s.ib.Query()
	return int(w), int(g), int(l), s.fail(op, err)
}

// Close closes the queue. Receives that are queued do not complete. Close returns [ErrBusy] while a queue pair uses the queue. A
// second Close does nothing.
func (s *SRQ) Close() error {
	return s.shutdown(func() error {
		s.q.mu.Lock()
		err := s.ib.Close()
		open := kindOf(err) == ErrBusy
		s.q.open.Store(open)
		s.q.mu.Unlock()
		if !open {
			s.ctx.unregister(s.token)
		}
		return err
	})
}
