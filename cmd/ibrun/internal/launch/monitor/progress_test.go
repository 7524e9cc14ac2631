package monitor

import (
	"testing"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// TestProgressFilter: only changes are shown; lines at a limited rate, and a last line when the job ends.
func TestProgressFilter(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(1000+seconds), 0) }
	show := func(p *protocol.Progress) string {
		if p == nil {
			return ""
		}
		return p.String()
	}
	m := progressFilter{asLines: true}
	for _, c := range []struct {
		second int
		done   uint64
		total  uint64
		want   string
	}{
		{0, 0, 0, ""}, // no rank reports progress
		{1, 10, 100, "10 % (10 of 100)"},
		{2, 20, 100, ""}, // too soon
		{6, 60, 100, "60 % (60 of 100), about 4s left"},
		{60, 60, 100, ""},              // no change
		{61, 5, 100, "5 % (5 of 100)"}, // another part of the program
		{62, 9, 100, ""},
	} {
		if got := show(m.next(protocol.Progress{Done: c.done, Total: c.total}, at(c.second))); got != c.want {
			t.Errorf("after %d s %q, want %q", c.second, got, c.want)
		}
	}
	if got := show(m.last(protocol.Progress{Done: 9, Total: 100})); got != "9 % (9 of 100)" {
		t.Errorf("at the end %q", got)
	}
	if p := (&progressFilter{asLines: true}).last(protocol.Progress{}); p != nil {
		t.Errorf("without progress, at the end: %v", p)
	}
	var bar progressFilter
	for i := range 3 {
		if p := bar.next(protocol.Progress{Done: uint64(i), Total: 9}, at(0)); p == nil || p.Done != uint64(i) {
			t.Errorf("a bar is not drawn for %d", i)
		}
	}
}
