package proctree

import (
	"testing"
	"time"
)

func TestStat(t *testing.T) {
	for text, want := range map[string]Process{
		"12 (a) b\n) S 7 1 1 0 -1 4194560 0\n":        {PID: 12, Parent: 7, State: 'S'},
		"12 () S 7 1 1 0 -1 4194564 0\n":              {PID: 12, Parent: 7, State: 'S', Exiting: true},
		"1 (init) Z 0 1 1 0 -1 4194560 0\n":           {PID: 1, Zombie: true, Exiting: true, State: 'Z'},
		"9 (a) T 7 1 1 0 -1 0 1 2 3 4 1500 250 9 9\n": {PID: 9, Parent: 7, State: 'T', CPU: 17500 * time.Millisecond},
	} {
		if p, err := parseStat(text); err != nil || p != want {
			t.Errorf("%q is %+v, %v, want %+v", text, p, err, want)
		}
	}
	for _, bad := range []string{"", "\n", "12 S 7 1 1 0 -1 0\n", ") (\n", "x (a) S 7 1 1 0 -1 0\n", "12 (a) S 7\n",
		"12 (a) SS 7 1 1 0 -1 0\n", "12 (a) S x 1 1 0 -1 0\n", "12 (a) S 7 1 1 0 -1 x\n", "12 (a) S 7 1 1 0 -1 0",
		"9 (a) T 7 1 1 0 -1 0 1 2 3 4 x 25\n", "9 (a) T 7 1 1 0 -1 0 1 2 3 4 150 -1\n"} {
		if p, err := parseStat(bad); err == nil {
			t.Errorf("%q was parsed as %+v", bad, p)
		}
	}
}

func FuzzStat(f *testing.F) {
	f.Add("12 (a) b\n) S 7 1 1 0 -1 4194560 0\n")
	f.Add("1 () Z 0 1 1 0 -1 4194560 0\n")
	f.Add("9 (a) T 7 1 1 0 -1 0 1 2 3 4 150 25 9 9\n")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := parseStat(text); err == nil && p.Zombie && !p.Exiting {
			t.Errorf("%q is %+v", text, p)
		}
	})
}
