package verbs

import (
	"net/netip"
	"sync"

	"github.com/ibrun/ibrun/hw"
)

// portCache holds what connections need to know of the ports of a device, so that to make one takes no queries. The kernel
// reports every change of a port but that of its MTU by an event, which empties the cache. Every query renews it.
type portCache struct {
	mu    sync.Mutex
	epoch uint64 // how often the cache was emptied
	attrs map[int]PortAttr
	gids  map[gidChoice]hw.GID
}

// gidChoice is the arguments of Context.chooseGID.
type gidChoice struct {
	port  int
	want  netip.Addr
	index int // -1 without an index
}

func newGIDChoice(port int, want netip.Addr, index *int) gidChoice {
	if index == nil {
		return gidChoice{port, want, -1}
	}
	return gidChoice{port, want, *index}
}

// empty removes everything.
func (p *portCache) empty() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch++
	clear(p.attrs)
	clear(p.gids)
}

// now returns the epoch, for store.
func (p *portCache) now() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch
}

// storeAttr keeps the result of a query that has begun in an epoch. If the cache was emptied since, the result may be of before.
func (p *portCache) storeAttr(epoch uint64, port int, a PortAttr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch != epoch {
		return
	}
	if p.attrs == nil {
		p.attrs = map[int]PortAttr{}
	}
	p.attrs[port] = a
}

// storeGID is storeAttr for a chosen GID.
func (p *portCache) storeGID(epoch uint64, c gidChoice, g hw.GID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch != epoch {
		return
	}
	if p.gids == nil {
		p.gids = map[gidChoice]hw.GID{}
	}
	p.gids[c] = g
}

// knownPort returns the attributes of a port. It queries them if they are not known.
func (c *Context) knownPort(port int) (PortAttr, error) {
	c.ports.mu.Lock()
	a, ok := c.ports.attrs[port]
	c.ports.mu.Unlock()
	if ok {
		return a, nil
	}
	return c.QueryPort(port)
}

// knownGID returns the GID that chooseGID returns. It queries the table if the GID is not known.
func (c *Context) knownGID(port int, want netip.Addr, index *int) (hw.GID, error) {
	c.ports.mu.Lock()
	g, ok := c.ports.gids[newGIDChoice(port, want, index)]
	c.ports.mu.Unlock()
	if ok {
		return g, nil
	}
	return c.chooseGID(port, want, index)
}
