package perftest

import (
	"testing"
	"time"
)

// TestTicks: both counters never go backward, and go forward while time passes.
func TestTicks(t *testing.T) {
	const turns, pause = 1000, time.Millisecond
	for name, count := range map[string]func() uint64{"ticks": ticks, "ticksGo": ticksGo} {
		last := count()
		for range turns {
			now := count()
			if now < last {
				t.Fatalf("%s: %d after %d", name, now, last)
			}
			last = now
		}
		time.Sleep(pause)
		if now := count(); now-last < uint64(pause/time.Microsecond) {
			t.Errorf("%s: %d in %v: a counter that measures microseconds has more", name, now-last, pause)
		}
	}
}

func TestLastByte(t *testing.T) {
	buf := make([]byte, 64)
	for i := range buf {
		buf[i] = byte(i + 1)
	}
	for n := 1; n <= len(buf); n++ {
		if got := lastByte(buf[:n]); got != byte(n) {
			t.Errorf("the last of %d bytes is %d, want %d", n, got, n)
		}
	}
}
