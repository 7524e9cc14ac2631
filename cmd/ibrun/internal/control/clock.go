package control

import (
	"encoding/binary"
	"sync"
	"time"
)

// beatLen is the length of a beat: three times of 8 bytes.
const beatLen = 24

// clock finds out how far the other side's clock is ahead, from beats that go both ways. A beat says when it was sent,
// when the other side's last beat had been sent, by its own clock, and how long ago that one had come. So each beat
// closes a round trip; the shortest one tells most.
type clock struct {
	mu     sync.Mutex
	their  int64         // when their last beat was sent, by their clock
	came   time.Time     // when it came
	best   time.Duration // shortest round trip; 0: none yet
	offset time.Duration
}

// beat makes a beat.
func (k *clock) beat(now time.Time) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	held := int64(0)
	if k.their != 0 {
		held = int64(now.Sub(k.came))
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(now.UnixNano()))
	b = binary.BigEndian.AppendUint64(b, uint64(k.their))
	return binary.BigEndian.AppendUint64(b, uint64(held))
}

// hear takes in a beat. It reports whether it was the first, which is answered at once. A beat that makes no sense is
// worth nothing.
func (k *clock) hear(beat []byte, now time.Time) (first bool) {
	sent, echo, held, ok := decodeBeat(beat)
	if !ok {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	first = k.their == 0
	k.their, k.came = sent, now
	if trip := time.Duration(now.UnixNano() - echo - held); echo != 0 && trip > 0 && (k.best == 0 || trip < k.best) {
		k.best, k.offset = trip, time.Duration(sent-now.UnixNano())+trip/2
	}
	return first
}

func decodeBeat(b []byte) (sent, echo, held int64, ok bool) {
	if len(b) != beatLen {
		return 0, 0, 0, false
	}
	sent, echo = int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))
	held = int64(binary.BigEndian.Uint64(b[16:]))
	return sent, echo, held, sent > 0 && echo >= 0 && held >= 0
}

func (k *clock) ahead() (time.Duration, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.offset, k.best != 0
}
