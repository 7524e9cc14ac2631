package core

import (
	"errors"
	"fmt"
	"sync"
)

// ErrLastCode is the greatest number that the standard reserves for error classes and codes.
const ErrLastCode = 16383

// MaxErrorString is the maximum length of an error text in bytes. C's constant also counts the
// final NUL.
const MaxErrorString = 511

// ErrorCodes are the error classes and codes of a process: the predefined ones, and those that the
// user has added. Any goroutine may call the methods. Their errors are faults.
type ErrorCodes struct {
	mu    sync.Mutex
	added []errorCode // numbered from ErrLastCode+1
}

type errorCode struct {
	class Class
	text  string
}

// ErrorCodes returns the error classes and codes of the process. If there is no process they are
// empty, and nothing can be added.
func (p *Process) ErrorCodes() *ErrorCodes {
	if p.IsNone() {
		return nil
	}
	return &p.codes
}

func (c *ErrorCodes) last() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(ErrLastCode) + len(c.added)
}

func (c *ErrorCodes) add(class Class) Class {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := ErrLastCode + Class(len(c.added)) + 1
	if class == 0 {
		class = n
	}
	c.added = append(c.added, errorCode{class: class})
	return n
}

// find returns a class or code, and false if it is neither predefined nor added, or there is no
// process.
func (c *ErrorCodes) find(n Class) (x errorCode, ok bool) {
	if c == nil {
		return x, false
	}
	if text, ok := classText[n]; ok {
		return errorCode{n, text}, true
	}
	if n <= ErrLastCode {
		return x, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if int(n-ErrLastCode) > len(c.added) {
		return x, false
	}
	return c.added[n-ErrLastCode-1], true
}

var errUnknownCode = errors.New("unknown error class or code")

// AddClass creates an error class; its number is also an error code. It returns 0 if there is no
// process.
func (c *ErrorCodes) AddClass() Class { return c.add(0) }

// AddErrorCode creates an error code in a class.
func (p *Process) AddErrorCode(class Class) (Class, error) {
	const op = "AddErrorCode"
	if err := p.checkUsable(op); err != nil {
		return 0, err
	}
	of, err := p.codes.ClassOf(class)
	if err != nil || of != class {
		err = p.wrapError("ErrorClass", err)
		return 0, p.newError(op, ErrArg, join(err, fmt.Errorf("%d is not a class", class)))
	}
	return p.codes.add(class), nil
}

// SetText sets the text of an added class or code, at most MaxErrorString bytes.
func (c *ErrorCodes) SetText(n Class, text string) error {
	if len(text) > MaxErrorString {
		return faultf(ErrArg, "the text has %d bytes; the maximum is %d", len(text), MaxErrorString)
	}
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n <= ErrLastCode || int(n-ErrLastCode) > len(c.added) {
		return faultf(ErrArg, "%w: %d was not added by AddErrorClass or AddErrorCode", errUnknownCode, n)
	}
	c.added[n-ErrLastCode-1].text = text
	return nil
}

// ClassOf returns the class of an error code; for a class, the class itself.
func (c *ErrorCodes) ClassOf(n Class) (Class, error) {
	x, ok := c.find(n)
	if !ok {
		return 0, faultf(ErrArg, "%d: %w", n, errUnknownCode)
	}
	return x.class, nil
}

// Text returns the text of an error class or code.
func (c *ErrorCodes) Text(n Class) (string, error) {
	x, ok := c.find(n)
	if !ok {
		return "", faultf(ErrArg, "%d: %w", n, errUnknownCode)
	}
	return x.text, nil
}
