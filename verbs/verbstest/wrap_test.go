package verbstest_test

import (
	"syscall"

	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// fault is a violation of a rule, injected into a correct provider. Nil functions change nothing.
type fault struct {
	rule string // the rule that must fail

	poll    func(c *cq, wcs []ib.WC) (int, error)
	notify  func(c *cq, solicited bool) error
	post    func(q *qp, wr *ib.SendWR) error
	recv    func(q *qp, id uint64, sge []ib.SGE) error
	ring    func(q *qp) error
	modify  func(q *qp, a *ib.QPAttr, mask uint32) error
	query   func(a *ib.QPAttr)
	shared  func(s *srq, id uint64, sge []ib.SGE) error
	region  func(p *pd, addr, length, iova uint64, access uint32) (ib.MR, error)
	rereg   func() error
	bind    func(w *mw) uint32
	attach  func(q *qp) error
	events  func(c *device, b []byte) (int, error)
	attr    func(a *ib.DeviceAttr)
	caps    func(c *ib.Cap)
	open    func() error
	closeQP func() error
}

// faulty is a provider with a fault.
type faulty struct {
	ib.Provider
	f *fault
}

func (p faulty) Open(d ib.Device) (ib.Context, error) {
	if p.f.open != nil {
		if err := p.f.open(); err != nil {
			return nil, err
		}
	}
	inner, err := p.Provider.Open(d)
	if err != nil {
		return nil, err
	}
	return &device{Context: inner, f: p.f}, nil
}

// device and the types below wrap the objects of a provider. Objects are unwrapped before they are passed to the provider.
type device struct {
	ib.Context
	f *fault
}

func (c *device) QueryDevice() (ib.DeviceAttr, error) {
	a, err := c.Context.QueryDevice()
	if c.f.attr != nil {
		c.f.attr(&a)
	}
	return a, err
}

func (c *device) AllocPD() (ib.PD, error) {
	inner, err := c.Context.AllocPD()
	if err != nil {
		return nil, err
	}
	return &pd{inner, c.f}, nil
}

func (c *device) CreateCQ(n int, ch ib.Channel, vector int) (ib.CQ, error) {
	inner, err := c.Context.CreateCQ(n, ch, vector)
	if err != nil {
		return nil, err
	}
	return &cq{CQ: inner, f: c.f}, nil
}

// ReadEvents implements ib.EventReader.
func (c *device) ReadEvents(b []byte) (int, error) {
	if c.f.events != nil {
		return c.f.events(c, b)
	}
	return c.read(b)
}

func (c *device) read(b []byte) (int, error) { return syscall.Read(c.AsyncFD(), b) }

type pd struct {
	ib.PD
	f *fault
}

func (p *pd) RegMR(addr, length, iova uint64, access uint32) (ib.MR, error) {
	var inner ib.MR
	var err error
	if p.f.region != nil {
		inner, err = p.f.region(p, addr, length, iova, access)
	} else {
		inner, err = p.PD.RegMR(addr, length, iova, access)
	}
	if err != nil {
		return nil, err
	}
	return &mr{inner, p.f}, nil
}

func (p *pd) AllocMW(kind uint8) (ib.MW, error) {
	inner, err := p.PD.AllocMW(kind)
	if err != nil {
		return nil, err
	}
	return &mw{inner, p.f}, nil
}

func (p *pd) CreateQP(init ib.QPInit) (ib.QP, error) {
	send := init.SendCQ.(*cq)
	init.SendCQ, init.RecvCQ = send.CQ, init.RecvCQ.(*cq).CQ
	if init.SRQ != nil {
		init.SRQ = init.SRQ.(*srq).SRQ
	}
	inner, err := p.PD.CreateQP(init)
	if err != nil {
		return nil, err
	}
	return &qp{QP: inner, f: p.f}, nil
}

func (p *pd) CreateSRQ(wr, sge, limit uint32) (ib.SRQ, error) {
	inner, err := p.PD.CreateSRQ(wr, sge, limit)
	if err != nil {
		return nil, err
	}
	return &srq{SRQ: inner, f: p.f}, nil
}

type mr struct {
	ib.MR
	f *fault
}

func (m *mr) Rereg(flags uint32, domain ib.PD, addr, length, iova uint64, access uint32) error {
	if m.f.rereg != nil {
		return m.f.rereg()
	}
	if domain != nil {
		domain = domain.(*pd).PD
	}
	return m.MR.Rereg(flags, domain, addr, length, iova, access)
}

type mw struct {
	ib.MW
	f *fault
}

func (w *mw) RKey() uint32 {
	if w.f.bind != nil {
		return w.f.bind(w)
	}
	return w.MW.RKey()
}

type cq struct {
	ib.CQ
	f     *fault
	count int
	kept  []ib.WC
}

func (c *cq) Poll(wcs []ib.WC) (int, error) {
	if c.f.poll != nil {
		return c.f.poll(c, wcs)
	}
	return c.CQ.Poll(wcs)
}

func (c *cq) Notify(solicited bool) error {
	if c.f.notify != nil {
		return c.f.notify(c, solicited)
	}
	return c.CQ.Notify(solicited)
}

type qp struct {
	ib.QP
	f     *fault
	count int
}

func (q *qp) Cap() ib.Cap {
	c := q.QP.Cap()
	if q.f.caps != nil {
		q.f.caps(&c)
	}
	return c
}

func (q *qp) Post(wr *ib.SendWR) error {
	if q.f.post != nil {
		return q.f.post(q, wr)
	}
	return q.send(wr)
}

func (q *qp) send(wr *ib.SendWR) error {
	w := *wr
	if w.Bind.MW != nil {
		w.Bind.MW, w.Bind.MR = w.Bind.MW.(*mw).MW, w.Bind.MR.(*mr).MR
	}
	return q.QP.Post(&w)
}

func (q *qp) AttachMulticast(gid [16]byte, lid uint16) error {
	if q.f.attach != nil {
		return q.f.attach(q)
	}
	return q.QP.AttachMulticast(gid, lid)
}

func (q *qp) Ring() error {
	if q.f.ring != nil {
		return q.f.ring(q)
	}
	return q.QP.Ring()
}

func (q *qp) Recv(id uint64, sge []ib.SGE) error {
	if q.f.recv != nil {
		return q.f.recv(q, id, sge)
	}
	return q.QP.Recv(id, sge)
}

func (q *qp) Modify(a *ib.QPAttr, mask uint32) error {
	if q.f.modify != nil {
		return q.f.modify(q, a, mask)
	}
	return q.QP.Modify(a, mask)
}

func (q *qp) Query(mask uint32) (ib.QPAttr, error) {
	a, err := q.QP.Query(mask)
	if q.f.query != nil {
		q.f.query(&a)
	}
	return a, err
}

func (q *qp) Close() error {
	if q.f.closeQP != nil {
		return q.f.closeQP()
	}
	return q.QP.Close()
}

type srq struct {
	ib.SRQ
	f *fault
}

func (s *srq) Recv(id uint64, sge []ib.SGE) error {
	if s.f.shared != nil {
		return s.f.shared(s, id, sge)
	}
	return s.SRQ.Recv(id, sge)
}
