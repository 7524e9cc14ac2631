package control

import (
	"encoding/binary"
	"sync"
	"time"
)

// heartbeatLen is the length of a heartbeat: three times of 8 bytes each.
const heartbeatLen = 24

// peerClock estimates the offset of the other side's clock from heartbeats in both directions. A heartbeat has the time when it
// was sent, the time when the last heartbeat of the other side was sent (by the other side's clock), and how long ago that one
// was received. So every heartbeat completes a round trip. The shortest round trip gives the best estimate.
type peerClock struct {
	mu         sync.Mutex
	lastSent   int64         // when the other side sent its last heartbeat, by its clock; 0: none was received
	receivedAt time.Time     // when that heartbeat was received
	minRTT     time.Duration // shortest round trip; 0: none yet
	offset     time.Duration // estimate from the shortest round trip
}

// heartbeat returns the next heartbeat to send.
func (c *peerClock) heartbeat(now time.Time) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	delay := int64(0)
	if c.lastSent != 0 {
		delay = int64(now.Sub(c.receivedAt))
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(now.UnixNano()))
	b = binary.BigEndian.AppendUint64(b, uint64(c.lastSent))
	return binary.BigEndian.AppendUint64(b, uint64(delay))
}

// receive processes a heartbeat and ignores an invalid one. It reports whether it was the first, which must be answered
// immediately.
func (c *peerClock) receive(heartbeat []byte, now time.Time) (first bool) {
	sent, echo, delay, ok := decodeHeartbeat(heartbeat)
	if !ok {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	first = c.lastSent == 0
	c.lastSent, c.receivedAt = sent, now
	if rtt := time.Duration(now.UnixNano() - echo - delay); echo != 0 && rtt > 0 && (c.minRTT == 0 || rtt < c.minRTT) {
		c.minRTT, c.offset = rtt, time.Duration(sent-now.UnixNano())+rtt/2
	}
	return first
}

// decodeHeartbeat returns the time when the heartbeat was sent, the time of the heartbeat that it answers (0: none), and how long
// after receiving that one it was sent. All are in nanoseconds.
func decodeHeartbeat(b []byte) (sent, echo, delay int64, ok bool) {
	if len(b) != heartbeatLen {
		return 0, 0, 0, false
	}
	sent, echo = int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))
	delay = int64(binary.BigEndian.Uint64(b[16:]))
	return sent, echo, delay, sent > 0 && echo >= 0 && delay >= 0
}

// estimate returns how far the other side's clock is ahead. ok is false before the first round trip.
func (c *peerClock) estimate() (ahead time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset, c.minRTT != 0
}
