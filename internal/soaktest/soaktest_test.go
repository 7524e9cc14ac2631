package soaktest

import (
	"slices"
	"testing"
)

func TestSample(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5, 6}
	for _, c := range []struct {
		n    int
		want []int
	}{
		{1, []int{0}}, {2, []int{0, 6}}, {3, []int{0, 3, 6}}, {4, []int{0, 2, 4, 6}}, {6, []int{0, 1, 2, 3, 4, 6}}, {7, all}, {8, all},
	} {
		t.Setenv("IBRUN_SOAK", "")
		if got := Sample(all, c.n); !slices.Equal(got, c.want) {
			t.Errorf("Sample(%v, %d) = %v, want %v", all, c.n, got, c.want)
		}
		t.Setenv("IBRUN_SOAK", "1")
		if got := Sample(all, c.n); !slices.Equal(got, all) {
			t.Errorf("with IBRUN_SOAK=1, Sample(%v, %d) = %v, want all", all, c.n, got)
		}
	}
	if got := Sample([]int(nil), 2); len(got) != 0 {
		t.Errorf("Sample of no cases = %v", got)
	}
}

func TestChoose(t *testing.T) {
	for value, want := range map[string]string{"": "short", "1": "long"} {
		t.Setenv("IBRUN_SOAK", value)
		if got := Choose("long", "short"); got != want {
			t.Errorf("IBRUN_SOAK=%q: Choose = %q, want %q", value, got, want)
		}
	}
}

func TestSeed(t *testing.T) {
	t.Setenv("IBRUN_SOAK", "")
	t.Setenv("IBRUN_SEED", "")
	if a, b := Seed(t), Seed(t); a != b {
		t.Errorf("seeds %d and %d of a sample", a, b)
	}
	t.Setenv("IBRUN_SOAK", "1")
	if a, b := Seed(t), Seed(t); a == b {
		t.Errorf("all cases have seed %d twice", a)
	}
	t.Setenv("IBRUN_SEED", "0x10")
	if s := Seed(t); s != 16 {
		t.Errorf("IBRUN_SEED=0x10 gives %d", s)
	}
}
