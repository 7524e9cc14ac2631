package perf

import (
	"strings"
	"testing"
)

// TestPlaces: a recorder with Places shows the source positions of waits and of the last call; one without shows none.
func TestPlaces(t *testing.T) {
	for _, where := range []string{"", "solver/main.go:31", strings.Repeat("x", 300) + "/main.go:7"} {
		memory := make([]byte, PageBytes)
		r, err := NewRecorder(memory, Identity{Size: 1}, On)
		if err != nil {
			t.Fatal(err)
		}
		if where != "" {
			r.Places(func() string { return where })
		}
		r.Called(Bcast)
		lane := r.Enter(Recv, 1, 7, 8)
		want := where[max(0, len(where)-8*placeWords):]
		if p := r.Page(); len(p.Activity().Current) != 1 || p.Activity().Current[0].Where != want {
			t.Errorf("the wait is %+v, want the place %q", p.Activity().Current, want)
		} else if got := p.LastCall(); got.Where != want || want != "" && got.Op != Bcast {
			t.Errorf("the last call is %+v, want the place %q", got, want)
		}
		r.Leave(lane)
		r.where = nil
		r.Enter(Recv, 1, 7, 8)
		if c := r.Page().Activity().Current; c[0].Where != "" {
			t.Errorf("a wait has the place %q of the one before", c[0].Where)
		}
	}
}
