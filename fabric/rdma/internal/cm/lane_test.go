package cm

import (
	"slices"
	"testing"
)

// TestLanes: the lanes are those of each rail in order. Lanes that are left out, and those that the
// peer has not offered, are missing; only the first lane cannot be left out.
func TestLanes(t *testing.T) {
	none := func(Lane) bool { return false }
	second := func(l Lane) bool { return l.Rail == 1 }
	every := func(Lane) bool { return true }
	all := []Lane{{0, 0}, {0, 1}, {1, 0}, {1, 1}}
	for _, c := range []struct {
		offered []QP
		leftOut func(Lane) bool
		want    []Lane
	}{
		{nil, none, all},
		{nil, second, all[:2]},
		{nil, every, all[:1]},
		{[]QP{{Lane: all[0]}, {Lane: all[2]}, {Lane: Lane{2, 0}}}, none, []Lane{all[0], all[2]}},
		{[]QP{{Lane: all[0]}, {Lane: all[2]}}, second, all[:1]},
	} {
		if got := Lanes(2, 2, c.offered, c.leftOut); !slices.Equal(got, c.want) {
			t.Errorf("offered %v: %v, want %v", c.offered, got, c.want)
		}
	}
}

// TestWithoutRails: only the lanes of the rails leave the set.
func TestWithoutRails(t *testing.T) {
	path := Lane{0, 1}.Bit()
	s := OfRail(1) | OfRail(3) | path
	if got := s.WithoutRails(1<<1 | 1<<2); got != OfRail(3)|path {
		t.Errorf("%b without rails 1 and 2: %b", s, got)
	}
}
