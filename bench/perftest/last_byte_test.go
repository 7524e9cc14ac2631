package perftest

import "testing"

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
