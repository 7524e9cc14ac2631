package devices

import (
	"slices"
	"testing"

	"github.com/ibrun/ibrun/hw"
)

// TestRails: the rails are the chosen device and others of its subnet; other ports of these devices
// come last.
func TestRails(t *testing.T) {
	ib, eth := &hw.RDMAPort{LinkLayer: hw.LinkInfiniBand}, &hw.RDMAPort{LinkLayer: hw.LinkEthernet}
	list, unfit := PerSubnet([]Candidate{{Device: "m0", Port: ib}, {Device: "m0:2", Port: ib}, {Device: "e0", Port: eth},
		{Device: "m1", Port: ib}}, Choice{}, nil)
	if len(list) != 2 || len(unfit) > 0 {
		t.Fatalf("%+v, %v", list, unfit)
	}
	for n, want := range [][]string{1: {"m0"}, 2: {"m0", "m1"}, 3: {"m0", "m1", "m0:2"}, 4: {"m0", "m1", "m0:2"}} {
		if n > 0 {
			if got := list[0].Rails(n); !slices.Equal(got, want) {
				t.Errorf("%d rails: %v, want %v", n, got, want)
			}
		}
	}
}

// TestWithout: the next port takes the place of one that cannot be used, until no other is left.
func TestWithout(t *testing.T) {
	s := Selection{Candidate{Device: "a"}, []Candidate{{Device: "b"}, {Device: "c"}}}
	s, ok := s.Without("b")
	if got := s.Rails(3); !ok || !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("without another: %q, %v", got, ok)
	}
	s, ok = s.Without("a")
	if got := s.Rails(3); !ok || !slices.Equal(got, []string{"c"}) {
		t.Errorf("without the chosen one: %q, %v", got, ok)
	}
	if s, ok = s.Without("c"); ok {
		t.Errorf("without any: %+v", s)
	}
}
