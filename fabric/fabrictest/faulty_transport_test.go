package fabrictest_test

import (
	"context"
	"os"
	"slices"

	"github.com/ibrun/ibrun/fabric"
)

// faulty is a transport with a fault.
type faulty struct {
	fabric.Transport
	f fault
}

func (t faulty) Open(ctx context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	c, wakes := *cfg, 0
	if t.f.wake != nil {
		c.Wake = func() {
			t.f.wake(wakes, cfg.Wake) // by one goroutine at a time, as there are two peers
			wakes++
		}
	}
	inner, err := t.Transport.Open(ctx, &c)
	return &domain{Domain: inner, f: t.f}, err
}

// domain is a domain with a fault.
type domain struct {
	fabric.Domain
	f         fault
	eps       map[int]*endpoint
	sends     int
	borrowed  [][]byte
	duplicate fabric.Event
}

func (d *domain) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	inner, err := d.Domain.Connect(peer, addr)
	if err != nil {
		return nil, err
	}
	if d.eps == nil {
		d.eps = make(map[int]*endpoint)
	}
	if d.eps[peer] == nil {
		d.eps[peer] = &endpoint{inner, d}
	}
	return d.eps[peer], nil
}

func (d *domain) Poll(evs []fabric.Event) (int, error) {
	if d.f.poll != nil {
		return d.f.poll(d, evs)
	}
	return d.Domain.Poll(evs)
}

func (d *domain) Arm() (int, bool, error) {
	if d.f.arm != nil {
		return d.f.arm(d)
	}
	return d.Domain.Arm()
}

func (d *domain) Segment(id uint64, peers []int, bytes int) (fabric.Segment, error) {
	s, err := d.Domain.(fabric.SharedMemory).Segment(id, peers, bytes)
	if err == nil && d.f.dirtySegments {
		s.Bytes()[bytes-1] = 1
	}
	return s, err
}

func (d *domain) Wake(peer int) {
	if !d.f.noWake {
		d.Domain.(fabric.SharedMemory).Wake(peer)
	}
}

// endpoint is an endpoint with a fault.
type endpoint struct {
	fabric.Endpoint
	d *domain
}

func (e *endpoint) Send(header, payload []byte) error {
	if e.d.f.send != nil {
		return e.d.f.send(e, header, payload)
	}
	return e.Endpoint.Send(header, payload)
}

func (e *endpoint) Read(dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error) {
	if e.d.f.read != nil {
		return e.d.f.read(e, dst, local, src, token)
	}
	return e.Endpoint.Read(dst, local, src, token)
}

// leaky is a transport that leaks a resource whenever it is opened.
type leaky struct {
	fabric.Transport
	leak func() error
}

func (t leaky) Open(ctx context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	if err := t.leak(); err != nil {
		return nil, err
	}
	return t.Transport.Open(ctx, cfg)
}

func leakGoroutines(t fabric.Transport) fabric.Transport {
	return leaky{t, func() error {
		go func() { select {} }()
		return nil
	}}
}

func leakFiles(t fabric.Transport) fabric.Transport {
	var files []*os.File // keeps them from being finalized
	return leaky{t, func() error {
		r, w, err := os.Pipe()
		files = append(files, r, w)
		return err
	}}
}

// pollCopies polls and copies the data of events to memory that overwrite can overwrite.
func pollCopies(d *domain, evs []fabric.Event) (int, error) {
	n, err := d.Domain.Poll(evs)
	d.borrowed = d.borrowed[:0]
	for i := range evs[:n] {
		evs[i].Data = slices.Clone(evs[i].Data)
		d.borrowed = append(d.borrowed, evs[i].Data)
	}
	return n, err
}

// overwrite overwrites the data of the last Poll.
func (d *domain) overwrite() {
	for _, b := range d.borrowed {
		clear(b)
	}
}
