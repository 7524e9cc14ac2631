package verbs

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// kind is what sort of object something is. Objects of a lower kind may depend on those of a higher one, so that everything
// can be closed in ascending order.
type kind int

const (
	kindMW kind = iota // first: a window of type 2 holds the queue pair that it is bound to
	kindQP
	kindAH
	kindSRQ
	kindMR
	kindCQ
	kindChannel
	kindPD
	kindContext
	kinds_
)

var kindNames = [kinds_]string{"memory window", "queue pair", "address handle", "shared receive queue", "memory region",
	"completion queue", "completion channel", "protection domain", "device"}

// base is the life of an object: who uses it, and whether it is closed. Nothing is closed before its users, and a control
// call holds calls shared, so that Close waits for it.
type base struct {
	ctx    *Context
	kind   kind
	num    uint32 // queue pair number and the like, for errors
	uses   []*base
	close  func() error // by which the context closes what is left
	onLoss func()       // wakes who waits in it when the device is gone, or nil

	closing sync.Mutex // held by Close, so that a second one waits for the first

	users int  // guarded by ctx.mu, as is dying
	dying bool // no new users

	calls  sync.RWMutex
	closed bool // guarded by calls
}

func (b *base) String() string {
	if b.num != 0 {
		return fmt.Sprintf("%s %#x", kindNames[b.kind], b.num)
	}
	return kindNames[b.kind]
}

// child is the beginning of an object that uses others.
func (c *Context) child(k kind, uses ...*base) base { return base{ctx: c, kind: k, uses: uses} }

// fail and refuse are those of the context, with the number of the queue pair.
func (b *base) fail(op string, err error) error { return b.name(b.ctx.fail(op, err)) }

func (b *base) refuse(op string, kind error, detail string, args ...any) error {
	return b.name(b.ctx.refuse(op, kind, detail, args...))
}

func (b *base) name(err error) error {
	if e, ok := err.(*Error); ok && b.kind == kindQP {
		e.QPN = b.num
	}
	return err
}

// enter begins a control call, which leave ends.
func (b *base) enter(op string) error {
	b.calls.RLock()
	if b.closed {
		b.calls.RUnlock()
		return b.refuse(op, ErrClosed, "")
	}
	return nil
}

func (b *base) leave() { b.calls.RUnlock() }

// open makes an object: build does it, while everything that it uses is held.
func (b *base) open(op string, close, build func() error) error {
	c := b.ctx
	if err := c.hold(op, b.uses); err != nil {
		return err
	}
	defer c.building.Done()
	b.close = close
	if err := build(); err != nil {
		c.release(b.uses)
		return b.fail(op, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects[b] = struct{}{}
	return nil
}

// hold counts one more user of each object, so that none is closed while something that depends on it is built.
func (c *Context) hold(op string, uses []*base) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dying {
		return c.refuse(op, ErrClosed, "the device is closed")
	}
	for _, u := range uses {
		if u.ctx != c {
			return c.refuse(op, ErrInvalid, "the %v belongs to another open device, %s", u, u.ctx.name)
		}
		if u.dying {
			return c.refuse(op, ErrClosed, "the %v is closed", u)
		}
	}
	for _, u := range uses {
		u.users++
	}
	c.building.Add(1)
	return nil
}

func (c *Context) release(uses []*base) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range uses {
		u.users--
	}
}

// shut closes an object: free does it. A second call does nothing. While others use it, and when the kernel says so, it is
// ErrBusy and the object stays as it was. With a device that is gone the kernel's part is gone too, which is no error.
func (b *base) shut(free func() error) error {
	c, op := b.ctx, "close the "+kindNames[b.kind]
	b.closing.Lock()
	defer b.closing.Unlock()
	c.mu.Lock()
	if b.dying {
		c.mu.Unlock()
		return nil
	}
	if b.users > 0 {
		users := c.usersOf(b)
		c.mu.Unlock()
		return b.refuse(op, ErrBusy, "close first: %s", users)
	}
	b.dying = true
	c.mu.Unlock()

	b.setClosed(true)
	err := b.fail(op, free())
	if kindOf(err) == ErrBusy {
		b.setClosed(false)
		c.mu.Lock()
		b.dying = false
		c.mu.Unlock()
		return err
	}
	c.mu.Lock()
	delete(c.objects, b)
	c.mu.Unlock()
	c.release(b.uses)
	if kindOf(err) == ErrDeviceLost {
		return nil
	}
	return err
}

// setClosed waits for the calls that are under way.
func (b *base) setClosed(closed bool) {
	b.calls.Lock()
	b.closed = closed
	b.calls.Unlock()
}

// usersOf names what uses an object. The caller holds c.mu.
func (c *Context) usersOf(b *base) string {
	var names []string
	for o := range c.objects {
		if slices.Contains(o.uses, b) {
			names = append(names, "the "+o.String())
		}
	}
	if len(names) == 0 {
		return "an object that is being made"
	}
	slices.Sort(names)
	if n := len(names); n > 4 {
		names = append(names[:4], fmt.Sprintf("%d more", n-4))
	}
	return strings.Join(names, ", ")
}
