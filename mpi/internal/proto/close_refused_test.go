package proto

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/mem"
)

// keepingDomain registers memory, but refuses to deregister any. Its Close returns an error.
type keepingDomain struct {
	fabric.Domain
	closed error
}

var (
	errKept        = errors.New("refused to deregister")
	errUnreleased  = fmt.Errorf("a queue pair: %w: %w", fabric.ErrNotReleased, errors.New("refused to destroy"))
	errUndelivered = errors.New("wait for acknowledgements: failed")
)

func (d keepingDomain) Caps() fabric.Caps {
	caps := d.Domain.Caps()
	caps.Read, caps.Direct = true, false
	return caps
}
func (keepingDomain) Register([]byte) (r fabric.Region, err error) { return r, nil }
func (keepingDomain) Deregister(fabric.Region) error               { return errKept }
func (d keepingDomain) Close() error                               { return errors.Join(d.Domain.Close(), d.closed) }

// TestCloseRefused: the device refuses to deregister memory, and closing the domain returns an
// error. Finish warns once, in one line, if these errors say only that something was not released,
// and returns them all if not. Close, and Finish without anybody to warn, return them.
func TestCloseRefused(t *testing.T) {
	for _, x := range []struct {
		name   string
		end    func(*Engine) error
		closed error
		noWarn bool
		lines  int // of the warning; 0: all is returned
	}{
		{"memory is kept", (*Engine).Finish, nil, false, 1},
		{"the domain keeps something", (*Engine).Finish, errUnreleased, false, 2},
		{"parts of the domain do", (*Engine).Finish, fmt.Errorf("parts: %w", errors.Join(errUnreleased, errUnreleased)), false, 3},
		{"nobody can be warned", (*Engine).Finish, errUnreleased, true, 0},
		{"messages may be lost", (*Engine).Finish, errUndelivered, false, 0},
		{"one part loses messages", (*Engine).Finish, fmt.Errorf("parts: %w", errors.Join(errUnreleased, errUndelivered)), false, 0},
		{"the process fails", (*Engine).Close, errUnreleased, false, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			var warned []string
			warn := func(s string) { warned = append(warned, s) }
			if x.noWarn {
				warn = nil
			}
			d, err := mem.NewHub(1).Transport().Open(t.Context(), &fabric.Config{Size: 1})
			if err != nil {
				t.Fatal(err)
			}
			e, err := New(Config{Domain: keepingDomain{d, x.closed}, Size: 1, Oversubscribed: true, Warn: warn, Waker: NewWaker(),
				Recorder: newRecorder(t, 0, 1)})
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Memory().Preregister(make([]byte, 100_000)); err != nil {
				t.Error(err)
			}
			err = x.end(e)
			if x.lines == 0 {
				if !errors.Is(err, errKept) || !errors.Is(err, x.closed) || len(warned) > 0 {
					t.Errorf("the error is %v; warned of %q", err, warned)
				}
				return
			}
			if err != nil || len(warned) != 1 || strings.Contains(warned[0], "\n") || strings.Count(warned[0], "; ") != x.lines-1 {
				t.Errorf("the error is %v; warned of %q", err, warned)
			}
		})
	}
}
