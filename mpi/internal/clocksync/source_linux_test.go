package clocksync

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestLocal: the local source is the kernel's CLOCK_MONOTONIC, which other processes read too.
func TestLocal(t *testing.T) {
	a, err := Local()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Local()
	if err != nil || a.ID != b.ID || a.ID == 0 {
		t.Errorf("sources %x and %x, %v", a.ID, b.ID, err)
	}
	for range 1000 {
		before := a.Now()
		var kernel unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &kernel); err != nil {
			t.Fatal(err)
		}
		if after := b.Now(); kernel.Nano() < before || kernel.Nano() > after {
			t.Fatalf("the kernel has %d between %d and %d", kernel.Nano(), before, after)
		}
	}
}
