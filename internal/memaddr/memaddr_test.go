package memaddr

import "testing"

func TestOf(t *testing.T) {
	if got := Of(nil); got != 0 {
		t.Errorf("nil has address %#x", got)
	}
	b := make([]byte, 16)
	if Of(b) == 0 || Of(b[5:]) != Of(b)+5 {
		t.Errorf("addresses %#x and, 5 bytes further, %#x", Of(b), Of(b[5:]))
	}
}
