package proto

import (
	"errors"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/mem"
)

// keepingDomain registers memory, but refuses to deregister any, and to be closed.
type keepingDomain struct {
	fabric.Domain
}

var errKept = errors.New("refused to deregister")

func (d keepingDomain) Caps() fabric.Caps {
	caps := d.Domain.Caps()
	caps.Read, caps.Direct = true, false
	return caps
}
func (keepingDomain) Register([]byte) (r fabric.Region, err error) { return r, nil }
func (keepingDomain) Deregister(fabric.Region) error               { return errKept }
func (d keepingDomain) Close() error                               { return errors.Join(d.Domain.Close(), errKept) }

// TestCloseRefused: the device refuses to deregister memory and to be closed. Close does not fail because of that, but warns
// once, in one line. Without anybody to warn it returns the error.
func TestCloseRefused(t *testing.T) {
	var warned []string
	for _, warn := range []func(string){nil, func(s string) { warned = append(warned, s) }} {
		d, err := mem.NewHub(1).Transport().Open(t.Context(), &fabric.Config{Size: 1})
		if err != nil {
			t.Fatal(err)
		}
		e, err := New(Config{Domain: keepingDomain{d}, Size: 1, Oversubscribed: true, Warn: warn, Waker: NewWaker(),
			Recorder: newRecorder(t, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Preregister(make([]byte, 100_000)); err != nil {
			t.Error(err)
		}
		if err := e.Close(); (err == nil) != (warn != nil) || err != nil && !errors.Is(err, errKept) {
			t.Errorf("Close returned %v, to warn is possible: %v", err, warn != nil)
		}
	}
	if len(warned) != 1 || strings.Contains(warned[0], "\n") || strings.Count(warned[0], "; ") != 1 {
		t.Errorf("warned of %q", warned)
	}
}
