package core

import (
	"errors"
	"fmt"
	"sync"
)

// ErrLastCode is the greatest number that the standard reserves for error classes and codes.
const ErrLastCode = 16383

// MaxErrorString is the maximum length of an error text in bytes. C's constant also counts the final NUL.
const MaxErrorString = 511

// errorCodes holds the error classes and codes that the user has added.
type errorCodes struct {
	mu    sync.Mutex
	added []errorCode // numbered from ErrLastCode+1
}

type errorCode struct {
	class Class
	text  string
}

func (c *errorCodes) last() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(ErrLastCode) + len(c.added)
}

func (c *errorCodes) add(class Class) Class {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := ErrLastCode + Class(len(c.added)) + 1
	if class == 0 {
		class = n
	}
	c.added = append(c.added, errorCode{class: class})
	return n
}

// find returns an added code, or nil if n is not one. The caller must hold mu.
func (c *errorCodes) find(n Class) *errorCode {
	if n <= ErrLastCode || int(n-ErrLastCode) > len(c.added) {
		return nil
	}
	return &c.added[n-ErrLastCode-1]
}

var errUnknownCode = errors.New("unknown error class or code")

// AddErrorClass creates an error class of this process; its number is also an error code.
func (p *Process) AddErrorClass() Class {
	if p.IsNone() {
		return 0
	}
	return p.codes.add(0)
}

// AddErrorCode creates an error code in a class.
func (p *Process) AddErrorCode(class Class) (Class, error) {
	if err := p.checkUsable("AddErrorCode"); err != nil {
		return 0, err
	}
	if of, err := p.ErrorClass(class); err != nil || of != class {
		return 0, p.newError("AddErrorCode", ErrArg, join(err, fmt.Errorf("%d is not a class", class)))
	}
	return p.codes.add(class), nil
}

// AddErrorString sets the text of an added class or code, at most MaxErrorString bytes.
func (p *Process) AddErrorString(n Class, text string) error {
	const op = "AddErrorString"
	if err := p.checkUsable(op); err != nil {
		return err
	}
	if len(text) > MaxErrorString {
		return p.newError(op, ErrArg, fmt.Errorf("the text has %d bytes; the maximum is %d", len(text), MaxErrorString))
	}
	p.codes.mu.Lock()
	c := p.codes.find(n)
	if c != nil {
		c.text = text
	}
	p.codes.mu.Unlock()
	if c == nil {
		return p.newError(op, ErrArg, fmt.Errorf("%w: %d was not added by AddErrorClass or AddErrorCode", errUnknownCode, n))
	}
	return nil
}

// ErrorClass returns the class of an error code; for a class, the class itself.
func (p *Process) ErrorClass(n Class) (Class, error) {
	if err := p.checkUsable("ErrorClass"); err != nil {
		return 0, err
	}
	if _, ok := classText[n]; ok {
		return n, nil
	}
	p.codes.mu.Lock()
	c := p.codes.find(n)
	class := Class(0)
	if c != nil {
		class = c.class
	}
	p.codes.mu.Unlock()
	if c == nil {
		return 0, p.newError("ErrorClass", ErrArg, fmt.Errorf("%d: %w", n, errUnknownCode))
	}
	return class, nil
}

// ErrorString returns the text of an error class or code.
func (p *Process) ErrorString(n Class) (string, error) {
	if err := p.checkUsable("ErrorString"); err != nil {
		return "", err
	}
	if text, ok := classText[n]; ok {
		return text, nil
	}
	p.codes.mu.Lock()
	c := p.codes.find(n)
	text := ""
	if c != nil {
		text = c.text
	}
	p.codes.mu.Unlock()
	if c == nil {
		return "", p.newError("ErrorString", ErrArg, fmt.Errorf("%d: %w", n, errUnknownCode))
	}
	return text, nil
}
