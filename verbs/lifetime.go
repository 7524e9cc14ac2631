package verbs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// kind is the type of an object. An object may use only objects of higher kinds, or of its own, so that closing all objects in
// ascending order closes users first.
type kind int

const (
	kindMW kind = iota // before kindQP: a window of type 2 uses the queue pair that it is bound to
	kindQP
	kindAH
	kindSRQ
	kindMR
	kindCQ
	kindChannel
	kindPD
	kindContext
	numKinds
)

var kindNames = [numKinds]string{"memory window", "queue pair", "address handle", "shared receive queue", "memory region",
	"completion queue", "completion channel", "protection domain", "device"}

// base is the lifetime of an object: its reference count, and whether it is closed. No object is closed before its users. Calls
// hold the lock calls shared, so that Close waits for them.
type base struct {
	ctx          *Context
	kind         kind
	num          uint32 // queue pair number and the like, for errors
	uses         []*base
	close        func() error // Context.Close calls it if the object is still open
	onDeviceLost func()       // wakes goroutines that wait in the object when the device is lost, or nil

	closing sync.Mutex // held by Close, so that a second Close waits for the first

	users      int  // number of open objects that use this one; guarded by ctx.mu
	closeBegun bool // no new users; guarded by ctx.mu

	calls  sync.RWMutex
	closed bool // no new calls; guarded by calls
}

func (b *base) String() string {
	if b.num != 0 {
		return fmt.Sprintf("%s %#x", kindNames[b.kind], b.num)
	}
	return kindNames[b.kind]
}

// newBase returns the base of an object that uses others.
func (c *Context) newBase(k kind, uses ...*base) base { return base{ctx: c, kind: k, uses: uses} }

// fail is Context.fail with the number of the queue pair.
func (b *base) fail(op string, err error) error { return b.setQPN(b.ctx.fail(op, err)) }

// refuse is Context.refuse with the number of the queue pair.
func (b *base) refuse(op string, kind error, detail string, args ...any) error {
	return b.setQPN(b.ctx.refuse(op, kind, detail, args...))
}

func (b *base) setQPN(err error) error {
	if e, ok := err.(*Error); ok && b.kind == kindQP {
		e.QPN = b.num
	}
	return err
}

// enter begins a call, and leave ends it. Every function that calls enter without an error calls leave. The object is not closed
// between them.
func (b *base) enter(op string) error {
	if !b.tryEnter() {
		return b.refuse(op, ErrClosed, "")
	}
	return nil
}

// tryEnter is enter that returns false if the object is closed.
func (b *base) tryEnter() bool {
	b.calls.RLock()
	if b.closed {
		b.calls.RUnlock()
		return false
	}
	return true
}

// leave ends a call that enter or tryEnter began.
func (b *base) leave() { b.calls.RUnlock() }

// open creates an object with the function create. None of the objects that it uses is closed meanwhile.
func (b *base) open(op string, close, create func() error) error {
	c := b.ctx
	if err := c.addRefs(op, b.uses); err != nil {
		return err
	}
	defer c.creating.Done()
	b.close = close
	if err := create(); err != nil {
		c.dropRefs(b.uses)
		return b.fail(op, err)
	}
	c.mu.Lock()
	c.objects[b] = struct{}{}
	c.mu.Unlock()
	if c.lost.Load() != nil && b.onDeviceLost != nil { // deviceLost, which sets lost first, may not have found the object
		b.onDeviceLost()
	}
	return nil
}

// addRefs adds one user to each object, so that none is closed before dropRefs. It fails if one of them, or the device, is
// closed. After success the caller must call c.creating.Done once the new user is in c.objects, or has been given up:
// Context.Close waits for that.
func (c *Context) addRefs(op string, uses []*base) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closeBegun {
		return c.refuse(op, ErrClosed, "the device is closed")
	}
	for _, u := range uses {
		if u.ctx != c {
			return c.refuse(op, ErrInvalid, "the %v belongs to another open device, %s", u, u.ctx.name)
		}
		if u.closeBegun {
			return c.refuse(op, ErrClosed, "the %v is closed", u)
		}
	}
	for _, u := range uses {
		u.users++
	}
	c.creating.Add(1)
	return nil
}

// dropRefs removes one user from each object.
func (c *Context) dropRefs(uses []*base) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range uses {
		u.users--
	}
}

// shutdown closes an object with the function free. A second call does nothing. While other objects use it, or if the kernel says
// that it is in use, shutdown returns ErrBusy and the object stays open. If the device is lost, the kernel has freed its part of
// the object already, which is not an error.
func (b *base) shutdown(free func() error) error {
	c, op := b.ctx, "close the "+kindNames[b.kind]
	b.closing.Lock()
	defer b.closing.Unlock()
	c.mu.Lock()
	if b.closeBegun {
		c.mu.Unlock()
		return nil
	}
	if b.users > 0 {
		users := c.usersOf(b)
		c.mu.Unlock()
		return b.refuse(op, ErrBusy, "close first: %s", users)
	}
	b.closeBegun = true
	c.mu.Unlock()

	b.setClosed(true)
	err := b.fail(op, free())
	if kindOf(err) == ErrBusy {
		b.setClosed(false)
		c.mu.Lock()
		b.closeBegun = false
		c.mu.Unlock()
		return err
	}
	c.mu.Lock()
	if c.unfreed == nil {
		c.unfreed = err // the objects that this one uses may stay in use: see whyInUse
	}
	delete(c.objects, b)
	c.mu.Unlock()
	c.dropRefs(b.uses)
	if kindOf(err) == ErrDeviceLost {
		return nil
	}
	return err
}

// whyInUse returns the error that Close reports for an object that it could not close. If the object is in use because another
// one was not freed before, that is the first error of freeing one. If that error was taken for the loss of the device, its kind
// is dropped: nothing is in use on a device that is lost.
func (c *Context) whyInUse(err error) error {
	if kindOf(err) != ErrBusy {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cause, ok := c.unfreed.(*Error); ok && cause.Kind == ErrDeviceLost {
		refused := *cause
		refused.Kind = nil
		return &refused
	}
	return cmp.Or(c.unfreed, err)
}

// setClosed waits for the calls in progress.
func (b *base) setClosed(closed bool) {
	b.calls.Lock()
	b.closed = closed
	b.calls.Unlock()
}

// usersOf returns the names of the objects that use an object. The caller must hold c.mu.
func (c *Context) usersOf(b *base) string {
	var names []string
	for o := range c.objects {
		if slices.Contains(o.uses, b) {
			names = append(names, "the "+o.String())
		}
	}
	if len(names) == 0 {
		return "an object that is being created"
	}
	slices.Sort(names)
	if n := len(names); n > 4 {
		names = append(names[:4], fmt.Sprintf("%d more", n-4))
	}
	return strings.Join(names, ", ")
}
