package coordinator

import (
	"slices"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// TestLeftRanks: each rank is announced once, whether it finalizes, exits or both, and the last ones are not announced.
func TestLeftRanks(t *testing.T) {
	l := newLeftRanks(4)
	event := func(kind protocol.Kind, rank int) { l.handleEvent(&protocol.Event{Kind: kind, Rank: rank}) }
	event(protocol.EventInit, 0)
	if l.due != nil {
		t.Error("an announcement is due before a rank has left")
	}
	event(protocol.EventFinalize, 2)
	event(protocol.EventExit, 0)
	event(protocol.EventExit, 2)
	if o := l.order(); o == nil || !slices.Equal(o.Left, []int{2, 0}) || l.due != nil {
		t.Errorf("order %+v", o)
	}
	event(protocol.EventExit, 0)
	if l.due != nil {
		t.Error("a rank is announced twice")
	}
	event(protocol.EventFinalize, 1)
	event(protocol.EventFinalize, 3)
	if o := l.order(); o != nil {
		t.Errorf("order %+v although all ranks have left", o)
	}
}
