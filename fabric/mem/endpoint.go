package mem

import (
	"fmt"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
)

var (
	_ fabric.Endpoint = (*endpoint)(nil)
	_ fabric.Gatherer = (*endpoint)(nil)
)

// The errors of calls after Close. They are never written.
var (
	errDomainClosed   = failure{fmt.Errorf("fabric/mem: domain: %w", fabric.ErrClosed)}
	errEndpointClosed = failure{fmt.Errorf("fabric/mem: endpoint: %w", fabric.ErrClosed)}
)

// endpoint is the connection to one peer.
type endpoint struct {
	domain *domain
	peer   int
	to     *inbox
	lane   *lane
	ended  atomic.Pointer[failure] // the error of every call from now on; atomic because Read and Write may run concurrently
}

func (e *endpoint) Send(header, payload []byte) error {
	if why := e.ended.Load(); why != nil {
		return why.err
	}
	if n := len(header) + len(payload); n > maxSend {
		return fmt.Errorf("fabric/mem: send: %d bytes, at most %d", n, maxSend)
	}
	if !e.lane.put(header, payload) {
		return fabric.ErrAgain
	}
	e.to.notify(e.domain.self)
	return nil
}

func (e *endpoint) SendFrom(header []byte, src fabric.Source, from int64, n int) error {
	if why := e.ended.Load(); why != nil {
		return why.err
	}
	if size := len(header) + n; size > maxSend {
		return fmt.Errorf("fabric/mem: send: %d bytes, at most %d", size, maxSend)
	}
	ok, err := e.lane.putFrom(header, src, from, n)
	switch {
	case err != nil:
		return fmt.Errorf("fabric/mem: send: %w", err)
	case !ok:
		return fabric.ErrAgain
	}
	e.to.notify(e.domain.self)
	return nil
}

func (e *endpoint) Read(dst []byte, local fabric.Region, src fabric.RemoteKey, _ uint64) (bool, error) {
	if why := e.ended.Load(); why != nil {
		return false, why.err
	}
	table := &e.domain.hub.regions
	if err := table.checkLocal(e.domain.self, local.Local, len(dst)); err != nil {
		return false, fmt.Errorf("fabric/mem: read: local: %w", err)
	}
	s, from, err := table.lockRange(e.peer, src, len(dst))
	if err != nil {
		return false, e.farError("read", err)
	}
	copy(dst, from)
	s.mu.RUnlock()
	return true, nil
}

func (e *endpoint) Write(src []byte, local fabric.Region, dst fabric.RemoteKey, _ uint64) (bool, error) {
	if why := e.ended.Load(); why != nil {
		return false, why.err
	}
	table := &e.domain.hub.regions
	if err := table.checkLocal(e.domain.self, local.Local, len(src)); err != nil {
		return false, fmt.Errorf("fabric/mem: write: local: %w", err)
	}
	s, to, err := table.lockRange(e.peer, dst, len(src))
	if err != nil {
		return false, e.farError("write", err)
	}
	copy(to, src)
	s.mu.RUnlock()
	return true, nil
}

// farError returns the error of an operation for which memory of the peer was not found: why the peer is down, or err.
func (e *endpoint) farError(op string, err error) error {
	if why := e.domain.hub.inboxes[e.peer].down.Load(); why != nil {
		return why.err
	}
	return fmt.Errorf("fabric/mem: %s: %w", op, err)
}

func (e *endpoint) Close() error {
	if !e.ended.CompareAndSwap(nil, &errEndpointClosed) {
		return nil
	}
	d := e.domain
	d.report(e.peer) // messages in flight are dropped
	e.lane.end.Store(&failure{fmt.Errorf("fabric/mem: the endpoint of peer %d: %w", d.self, fabric.ErrPeerClosed)})
	e.to.notify(d.self)
	return nil
}
