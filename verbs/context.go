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
	caps     DeviceAttr                 // as of Open
	lost     atomic.Pointer[deviceLoss] // nil until the device is lost

	refusesOptional atomic.Bool // the driver has refused access flags that it should ignore if it does not know them

	keepsCompletions bool // see KeepsCompletions
	doorbellIsCall   bool // see DoorbellIsCall

	mu      sync.Mutex
	objects map[*base]struct{} // all open objects but the context; keeps registered memory alive
	unfreed error              // the first error of freeing an object; guarded by mu
	tokens  map[uint64]any     // *QP, *CQ and *SRQ by the token that events name them by
	qps     map[uint32]*QP     // by queue pair number, which completions name them by

	creating sync.WaitGroup // creations in progress; see addRefs

	ports portCache

	hwMu   sync.Mutex
	device hw.RDMADevice // the GID table as of the last query, with what hw knows about its entries

	events asyncEvents
}

func newContext(c ib.Context, provider string, d hw.RDMADevice) (*Context, error) {
	d.Ports = slices.Clone(d.Ports) // readDevice and setGIDs change them
	ctx := &Context{name: d.Name, provider: provider, ib: c, device: d,
		objects: map[*base]struct{}{}, tokens: map[uint64]any{}, qps: map[uint32]*QP{}}
	ctx.base = ctx.newBase(kindContext)
	attr, err := c.QueryDevice()
	if err != nil {
		return nil, ctx.fail("query the device", err)
	}
	ctx.caps, ctx.keepsCompletions = DeviceAttr(attr), d.Provider == "rxe"
	if k, ok := c.(ib.CompletionKeeper); ok {
		ctx.keepsCompletions = k.KeepsCompletions()
	}
	ctx.doorbellIsCall = slices.Contains(callingProviders, d.Provider)
	if k, ok := c.(ib.DoorbellCaller); ok {
		ctx.doorbellIsCall = k.DoorbellIsCall()
	}
	if err := ctx.events.start(ctx); err != nil {
		return nil, err
	}
	return ctx, nil
}

// Name returns the device's name, such as rxe0.
func (c *Context) Name() string { return c.name }

// Provider returns the name of the provider: rxe or libibverbs.
func (c *Context) Provider() string { return c.provider }

// KeepsCompletions reports whether completions of a queue pair that was closed can still be polled, as with rxe (Soft-RoCE).
// Other devices, such as mlx5, remove them from their queues. With these, close a queue pair only when its last completions
// were polled: change its state to [StateErr]; with an SRQ, wait for [EventLastWQE], which rxe does not raise; then poll until
// the queues are empty. Otherwise messages are lost, and the receives of the SRQ that the pair had taken never complete.
func (c *Context) KeepsCompletions() bool { return c.keepsCompletions }

// callingProviders are the user-space drivers, and kernel drivers, of devices that get their requests by a system call.
var callingProviders = []string{"rxe", "siw", "hfi1", "hfi1verbs", "qib", "ipathverbs"}

// DoorbellIsCall reports whether [QP.Ring] makes a system call, as it does for devices in software (rxe, siw) and for hfi1 and
// qib. There, requests may wait a little for others, so that they share a doorbell. The doorbell of all other devices is a store
// to memory, which costs less than to wait: post each request with [RingDoorbell], or the last of several that are at hand.
func (c *Context) DoorbellIsCall() bool { return c.doorbellIsCall }

// Close closes everything that was opened from this context and is still open, in the order that the kernel needs, and then the
// device. Goroutines that wait in it get [ErrClosed]. A second Close does nothing.
func (c *Context) Close() error {
	c.mu.Lock()
	if c.closeBegun {
		c.mu.Unlock()
		return nil
	}
	c.closeBegun = true // no new objects
	c.mu.Unlock()
	c.creating.Wait()
	var first error
	for k := range kindContext {
		for _, b := range c.openObjects(k) {
			if err := b.close(); err != nil && first == nil {
				first = c.whyInUse(err)
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

// isClosing reports whether Close has begun.
func (c *Context) isClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closeBegun
}

// openObjects returns the open objects of a kind.
func (c *Context) openObjects(k kind) []*base {
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

// register makes events, and the completions of a queue pair, find an object.
func (c *Context) register(token uint64, o any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens[token] = o
	if q, ok := o.(*QP); ok {
		c.qps[q.num] = q
	}
}

// unregister ends register.
func (c *Context) unregister(token uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q, ok := c.tokens[token].(*QP); ok && c.qps[q.num] == q { // the device may have given the number to another pair
		delete(c.qps, q.num)
	}
	delete(c.tokens, token)
}

// objectOf returns the object with the given token, or nil.
func (c *Context) objectOf(token uint64) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens[token]
}

// requestFailed calls requestFailed of the queue pair with the given number.
func (c *Context) requestFailed(qpn uint32) {
	c.mu.Lock()
	q := c.qps[qpn]
	c.mu.Unlock()
	if q != nil {
		q.requestFailed()
	}
}

// QueryDevice returns the device's limits.
func (c *Context) QueryDevice() (DeviceAttr, error) {
	const op = "query the device"
	if err := c.enter(op); err != nil {
		return DeviceAttr{}, err
	}
	defer c.leave()
	a, err := c.ib.QueryDevice()
	return DeviceAttr(a), c.fail(op, err)
}

// QueryPort returns the attributes of a port. Ports count from 1.
func (c *Context) QueryPort(port int) (PortAttr, error) {
	const op = "query the port"
	if err := c.enter(op); err != nil {
		return PortAttr{}, err
	}
	defer c.leave()
	if err := c.checkPort(op, port); err != nil {
		return PortAttr{}, err
	}
	epoch := c.ports.now()
	a, err := c.ib.QueryPort(port)
	if err != nil {
		return portAttr(a), c.fail(op, err)
	}
	c.ports.storeAttr(epoch, port, portAttr(a))
	return portAttr(a), nil
}

func (c *Context) checkPort(op string, port int) error {
	if port < 1 || port > int(c.caps.Ports) {
		return c.refuse(op, ErrInvalid, "port %d is out of range (1 to %d)", port, c.caps.Ports)
	}
	return nil
}

// QueryPKey returns an entry of a port's table of partition keys.
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
