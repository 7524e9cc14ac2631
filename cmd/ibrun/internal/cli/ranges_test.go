package cli

import (
	"slices"
	"testing"
)

func TestRanges(t *testing.T) {
	for _, c := range []struct {
		text string
		want Ranges
	}{
		{"8", Ranges{{8, 8}}},
		{"8,64K,1m", Ranges{{8, 8}, {64 << 10, 64 << 10}, {1 << 20, 1 << 20}}},
		{"0-1K,3", Ranges{{0, 1024}, {3, 3}}},
		{"2T", Ranges{{2 << 40, 2 << 40}}},
	} {
		var got Ranges
		if err := got.Set(c.text); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q is %v, %v; want %v", c.text, got, err, c.want)
		}
		var again Ranges
		if err := again.Set(got.String()); err != nil || !slices.Equal(again, got) {
			t.Errorf("%q was written %q and read %v, %v", c.text, got.String(), again, err)
		}
	}
	for _, bad := range []string{
		"", ",", "8,", "-", "-1", "1-", "2-1", "K", "8X", "1.5M", "9999999T", "99999999999999999999", "1K-8",
	} {
		kept := Ranges{{1, 1}}
		if err := kept.Set(bad); err == nil {
			t.Errorf("%q was accepted as %v", bad, kept)
		} else if !slices.Equal(kept, Ranges{{1, 1}}) {
			t.Errorf("%q was refused, but changed the value", bad)
		}
	}
	list := Ranges{{0, 2}, {7, 7}}
	for n, want := range map[int]bool{0: true, 2: true, 3: false, 7: true, 8: false} {
		if list.Contains(n) != want {
			t.Errorf("%v contains %d: %v, want %v", list, n, !want, want)
		}
	}
}
