package core

import (
	"sync"

	"github.com/ibrun/ibrun/attrs"
)

// typeAttrs are the attributes of a datatype. A datatype belongs to no process, but keys do: its
// attributes are those of the process that sets the first one. The zero value has none.
type typeAttrs struct {
	mu    sync.Mutex
	proc  *Process // nil until the first attribute is set
	cache attrs.Cache[*Datatype]
}

// of returns the attributes and their process; nil if none was ever set.
func (a *typeAttrs) of() (*attrs.Cache[*Datatype], *Process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.proc == nil {
		return nil, nil
	}
	return &a.cache, a.proc
}

// in returns the attributes of t, which belong to a process unless they belong to another already.
func (a *typeAttrs) in(p *Process, t *Datatype) *attrs.Cache[*Datatype] {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Callbacks belong to the keys of a process, so one process has to be the owner. In a program
	// that has several, it is the first one.
	if a.proc == nil {
		a.proc = p
		a.cache.Init(&p.typeKeys, t)
	}
	return &a.cache
}

// clear deletes all attributes, as [attrs.Cache.Clear] does.
func (a *typeAttrs) clear(op string) error {
	c, p := a.of()
	if c == nil {
		return nil
	}
	return p.wrapError(op, c.Clear())
}

// copyTo copies the attributes to those of the new handle d.
func (a *typeAttrs) copyTo(op string, d *Datatype) error {
	c, p := a.of()
	if c == nil {
		return nil
	}
	return p.wrapError(op, c.Copy(d.attrs.in(p, d)))
}

// TypeKeys returns the keys of attributes of datatypes.
func (p *Process) TypeKeys() *attrs.Space[*Datatype] { return &p.typeKeys }

// MutableAttrs returns the attributes of a datatype for a call that sets one with a key of p. p is
// nil for the zero key.
func (t *Datatype) MutableAttrs(op string, p *Process) (*attrs.Cache[*Datatype], error) {
	if _, err := t.owned(op); err != nil {
		return nil, err
	}
	if p == nil {
		return nil, newError(op, ErrKeyval, attrs.ErrKeyval)
	}
	return t.attrs.in(p, t), nil
}

// Attrs returns the attributes of a datatype for a call that looks for one with a key of p. p is
// nil for the zero key. The attributes are nil if it never had any.
func (t *Datatype) Attrs(op string, p *Process) (*attrs.Cache[*Datatype], error) {
	if _, err := t.Type(op); err != nil {
		return nil, err
	}
	if p == nil {
		return nil, newError(op, ErrKeyval, attrs.ErrKeyval)
	}
	c, _ := t.attrs.of()
	return c, nil
}

// TypeAttrError wraps an error of package attrs or of a callback; nil stays nil. p has the key.
func (p *Process) TypeAttrError(op string, err error) error { return p.wrapError(op, err) }
