package clocksync

// Measurement cycles are short at first, when the clocks are known poorly, and become longer.
// FirstCycle is the length of the first cycle in nanoseconds.
const (
	FirstCycle   = 20e6
	longestCycle = 1280e6
)

// NextCycle returns when the next cycle after the time since begins, and its length. All values are in nanoseconds;
// since and begins count from the start of the clocks. All processes use the same cycles, so the one that measures
// and the one that answers are ready at the same time.
func NextCycle(since int64) (begins, length int64) {
	begins, length = 0, FirstCycle
	for begins <= since && length < longestCycle {
		begins += length
		length *= 2
	}
	if begins <= since {
		begins += ((since-begins)/longestCycle + 1) * longestCycle
	}
	return begins, length
}
