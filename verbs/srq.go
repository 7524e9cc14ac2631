package verbs

import (
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/rxe"
)

// SRQ is a shared receive queue: queue pairs that have it take their receives from there. Its methods may be called by any
// goroutine at any time.
type SRQ struct {
	base
	ib    ib.SRQ
	token uint64

	q recvQueue
}

// SRQConfig says what shared receive queue to make.
type SRQConfig struct {
	MaxRecv    int // receives that are queued at the same time
	MaxRecvSGE int // entries of their scatter lists, 0 means 1
	Limit      int // EventSRQLimit comes when fewer receives are left; 0 for never. It comes once, see SetLimit
}

// CreateSRQ makes a shared receive queue.
func (pd *PD) CreateSRQ(cfg SRQConfig) (*SRQ, error) {
	const op = "make a shared receive queue"
	if cfg.MaxRecv < 1 || cfg.MaxRecvSGE < 0 || cfg.Limit < 0 || cfg.Limit > cfg.MaxRecv {
		return nil, pd.refuse(op, ErrInvalid, "MaxRecv %d, MaxRecvSGE %d, Limit %d", cfg.MaxRecv, cfg.MaxRecvSGE, cfg.Limit)
	}
	s := &SRQ{base: pd.ctx.child(kindSRQ, &pd.base)}
	s.onLoss = func() {
		s.q.mu.Lock()
		s.q.open, s.q.lost = false, true
		s.q.mu.Unlock()
	}
	err := s.open(op, s.Close, func() (err error) {
		if s.ib, err = pd.ib.CreateSRQ(uint32(cfg.MaxRecv), uint32(max(cfg.MaxRecvSGE, 1)), uint32(cfg.Limit)); err != nil {
			return err
		}
		_, sge := s.ib.Cap()
		s.q = recvQueue{base: &s.base, ib: s.ib, soft: rxe.RecvsOf(s.ib), open: true, sge: make([]ib.SGE, sge)}
		s.num, s.token = s.ib.Num(), s.ib.Token()
		pd.ctx.known(s.token, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Cap is how many receives can be queued, and how many entries the scatter list of each can have.
func (s *SRQ) Cap() (wr, sge int) {
	w, g := s.ib.Cap()
	return int(w), int(g)
}

// Recv queues a receive: the next message goes into the memory that the list names, and makes a completion with this ID.
// The device sees it at once. [ErrFull] says that the queue is full.
func (s *SRQ) Recv(id uint64, sge ...SGE) error { return s.q.post(id, sge) }

// SetLimit has [EventSRQLimit] come when fewer than n receives are left. It comes once, then the limit is 0 again.
func (s *SRQ) SetLimit(n int) error { return s.modify(uverbs.SRQAttrLimit, 0, n) }

// Resize changes how many receives can be queued to at least n. Devices that cannot say [ErrNotSupported].
func (s *SRQ) Resize(n int) error {
	s.q.mu.Lock() // the device moves what is queued
	defer s.q.mu.Unlock()
	return s.modify(uverbs.SRQAttrMaxWR, n, 0)
}

func (s *SRQ) modify(mask uverbs.SRQAttrMask, wr, limit int) error {
	const op = "change the shared receive queue"
	if err := s.enter(op); err != nil {
		return err
	}
	defer s.leave()
	if wr < 0 || limit < 0 {
		return s.refuse(op, ErrInvalid, "%d receives, limit %d", wr, limit)
	}
	return s.fail(op, s.ib.Modify(uint32(mask), uint32(wr), uint32(limit)))
}

// Query asks for the size of the queue, the entries of its scatter lists and its limit.
func (s *SRQ) Query() (wr, sge, limit int, err error) {
	const op = "query the shared receive queue"
	if err := s.enter(op); err != nil {
		return 0, 0, 0, err
	}
	defer s.leave()
	w, g, l, err := s.ib.Query()
	return int(w), int(g), int(l), s.fail(op, err)
}

// Close closes the queue; what is queued does not complete. While a queue pair uses it, it is [ErrBusy]. A second Close
// does nothing.
func (s *SRQ) Close() error {
	return s.shut(func() error {
		s.q.mu.Lock()
		err := s.ib.Close()
		s.q.open = kindOf(err) == ErrBusy
		s.q.mu.Unlock()
		if !s.q.open {
			s.ctx.forget(s.token)
		}
		return err
	})
}
