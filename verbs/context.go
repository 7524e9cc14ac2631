package verbs

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// Context is an open device. Its methods may be called by any goroutine at any time.
type Context struct {
	base
	name     string // of the device
	provider string
	ib       ib.Context
	caps     DeviceAttr // as of Open
	lost     atomic.Bool

	mu      sync.Mutex
	objects map[*base]struct{} // all but the context; keeps alive what is registered
	tokens  map[uint64]any     // *QP, *CQ and *SRQ, by what events name them
	pairs   map[uint32]*QP     // by number, by which completions name them

	building sync.WaitGroup // of objects; nothing is added after dying is set

	hwMu   sync.Mutex
	device hw.RDMADevice // what the GID table was, with what hw knows of its entries

	events events
}

func newContext(c ib.Context, provider string, d hw.RDMADevice) (*Context, error) {
	d.Ports = slices.Clone(d.Ports) // which change with the GID table
	ctx := &Context{name: d.Name, provider: provider, ib: c, device: d,
		objects: map[*base]struct{}{}, tokens: map[uint64]any{}, pairs: map[uint32]*QP{}}
	ctx.base = ctx.child(kindContext)
	attr, err := c.QueryDevice()
	if err != nil {
		return nil, ctx.fail("query the device", err)
	}
	ctx.caps = DeviceAttr(attr)
	if err := ctx.events.start(ctx); err != nil {
		return nil, err
	}
	return ctx, nil
}

// Name is the device's name, such as rxe0.
func (c *Context) Name() string { return c.name }

// Provider is the name of what reaches the device: rxe or libibverbs.
func (c *Context) Provider() string { return c.provider }

// Close closes everything that was opened from this context and is still open, in the order that the kernel wants, and then the
// device. Whoever waits in it gets [ErrClosed]. A second Close does nothing.
func (c *Context) Close() error {
	c.mu.Lock()
	if c.dying {
		c.mu.Unlock()
		return nil
	}
	c.dying = true // nothing new
	c.mu.Unlock()
	c.building.Wait()
	var first error
	for k := range kindContext {
		for _, b := range c.left(k) {
			if err := b.close(); err != nil && first == nil {
				first = err
			}
		}
	}
	c.setClosed(true)
	c.events.stop()
	if err := c.fail("close the device", c.ib.Close()); first == nil {
		first = err
	}
	return first
}

func (c *Context) isDying() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dying
}

// left returns the open objects of a kind.
func (c *Context) left(k kind) []*base {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*base
	for b := range c.objects {
		if b.kind == k {
			list = append(list, b)
		}
	}
	return list
}

// known makes an object known to events.
func (c *Context) known(token uint64, o any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens[token] = o
	if q, ok := o.(*QP); ok {
		c.pairs[q.num] = q
	}
}

func (c *Context) forget(token uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q, ok := c.tokens[token].(*QP); ok && c.pairs[q.num] == q { // the number may be another's by now
		delete(c.pairs, q.num)
	}
	delete(c.tokens, token)
}

// doubt tells the queue pair of this number that a request of it has failed.
func (c *Context) doubt(qpn uint32) {
	c.mu.Lock()
	q := c.pairs[qpn]
	c.mu.Unlock()
	if q != nil {
		q.doubt()
	}
}

func (c *Context) byToken(token uint64) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens[token]
}

// deviceLost notes that the device is gone, and wakes who waits for it.
func (c *Context) deviceLost() {
	c.lost.Store(true)
	var tell []func()
	c.mu.Lock()
	for b := range c.objects {
		if b.onLoss != nil {
			tell = append(tell, b.onLoss)
		}
	}
	c.mu.Unlock()
	for _, f := range tell {
		f()
	}
}

// QueryDevice asks for the device's limits.
func (c *Context) QueryDevice() (DeviceAttr, error) {
	const op = "query the device"
	if err := c.enter(op); err != nil {
		return DeviceAttr{}, err
	}
	defer c.leave()
	a, err := c.ib.QueryDevice()
	return DeviceAttr(a), c.fail(op, err)
}

// QueryPort asks for the attributes of a port. Ports count from 1.
func (c *Context) QueryPort(port int) (PortAttr, error) {
	const op = "query the port"
	if err := c.enter(op); err != nil {
		return PortAttr{}, err
	}
	defer c.leave()
	if err := c.checkPort(op, port); err != nil {
		return PortAttr{}, err
	}
	a, err := c.ib.QueryPort(port)
	return portAttr(a), c.fail(op, err)
}

func (c *Context) checkPort(op string, port int) error {
	if port < 1 || port > int(c.caps.Ports) {
		return c.refuse(op, ErrInvalid, "there is no port %d, only 1 to %d", port, c.caps.Ports)
	}
	return nil
}

// QueryPKey asks for an entry of a port's table of partition keys.
func (c *Context) QueryPKey(port, index int) (uint16, error) {
	const op = "query a partition key"
	if err := c.enter(op); err != nil {
		return 0, err
	}
	defer c.leave()
	if err := c.checkPort(op, port); err != nil {
		return 0, err
	}
	k, err := c.ib.QueryPKey(port, index)
	return k, c.fail(op, err)
}
