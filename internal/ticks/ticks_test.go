package ticks

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/waittest"
)

// TestNow: the counter and its twin never go backward, and go forward while time passes.
func TestNow(t *testing.T) {
	const turns, pause = 1000, time.Millisecond
	for name, count := range map[string]func() uint64{"Now": Now, "nowGo": nowGo} {
		last := count()
		for range turns {
			now := count()
			if now < last {
				t.Fatalf("%s: %d after %d", name, now, last)
			}
			last = now
		}
		waittest.Elapse(t, pause, "the counter counts it")
		if now := count(); now-last < uint64(pause/time.Microsecond) {
			t.Errorf("%s: %d in %v: a counter that measures microseconds has more", name, now-last, pause)
		}
	}
}

// TestSteady holds what CPUID says, read in assembly, against what the kernel made of it.
func TestSteady(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		if Steady() {
			t.Error("steady, and there is no counter")
		}
		return
	}
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Skipf("the kernel does not tell: %v", err)
	}
	want := strings.Contains(string(text), "nonstop_tsc") && strings.Contains(string(text), "constant_tsc")
	if Steady() != want {
		t.Errorf("steady: %v, the kernel says %v", Steady(), want)
	}
}
