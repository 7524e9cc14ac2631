package clocksync

// The cycles of exchanges are short at first, when little is known of the clocks, and get longer.
const (
	firstCycle   = 20e6
	longestCycle = 1280e6
)

// NextCycle is when the cycle after some time begins, and how long it is. All are in nanoseconds, the first two since the
// clocks were started. So whoever asks and who answers are there at the same time.
func NextCycle(since int64) (begins, length int64) {
	begins, length = 0, firstCycle
	for begins <= since && length < longestCycle {
		begins += length
		length *= 2
	}
	if begins <= since {
		begins += ((since-begins)/longestCycle + 1) * longestCycle
	}
	return begins, length
}
