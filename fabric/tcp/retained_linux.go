package tcp

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

const (
	// maxRetained is the most that is kept for one peer.
	maxRetained = 4 << 20
	// maxQueued is the part of it that may wait to be sent for the first time. Behind what SendLater keeps there is room for the
	// longest message and a shutdown. With more, later messages would only wait longer.
	maxQueued = maxDeferred + headerBytes + maxSend + headerBytes
	// minRing is the length of the first ring buffer of a connection.
	minRing = 4 << 10
	// ackBytes is how much a receiver leaves unacknowledged. The kernels hold up to 3 MiB of a stream, so the sender has to wait
	// for acknowledgements only if the path holds more. Each one costs a system call: of 256 KiB a twentieth.
	ackBytes = 512 << 10
)

// retained are the frames that are sent again if the connection breaks: messages, and the shutdown. They are kept until the
// peer's process has received them. Positions count the bytes of such frames since the session began: acked <= sent <= end.
type retained struct {
	ring  []byte // of a length that is a power of two. Position p is at p modulo the length; nil: nothing is kept
	acked uint64 // the peer has received what is before
	sent  uint64 // this connection's kernel has taken what is before
	end   uint64
}

// room returns how many more bytes may be added.
func (r *retained) room() int {
	return min(maxRetained-int(r.end-r.acked), maxQueued-int(r.end-r.sent))
}

// unsent returns how many bytes the kernel has not taken.
func (r *retained) unsent() int { return int(r.end - r.sent) }

// add appends bytes.
func (r *retained) add(b []byte) {
	r.reserve(len(b))
	r.put(r.end, b)
	r.end += uint64(len(b))
}

// reserve makes room for n bytes behind end.
func (r *retained) reserve(n int) {
	if used := int(r.end - r.acked); used+n > len(r.ring) {
		r.grow(used + n)
	}
}

// put writes bytes at a position that there is room for.
func (r *retained) put(at uint64, b []byte) {
	if n := copy(r.ring[int(at)&(len(r.ring)-1):], b); n < len(b) {
		copy(r.ring, b[n:])
	}
}

// grow makes room for n bytes altogether.
func (r *retained) grow(n int) {
	size := max(minRing, 2*len(r.ring))
	for size < n {
		size *= 2
	}
	ring := make([]byte, size)
	for at := r.acked; at < r.end; {
		part := r.part(at, r.end)
		to := int(at) & (size - 1)
		at += uint64(copy(ring[to:], part))
	}
	r.ring = ring
}

// part returns the bytes between two positions, as far as they are contiguous.
func (r *retained) part(from, to uint64) []byte {
	if from == to {
		return nil
	}
	at := int(from) & (len(r.ring) - 1)
	return r.ring[at:min(len(r.ring), at+int(to-from))]
}

// parts returns the bytes between two positions, the second part of which is at the beginning of the ring.
func (r *retained) parts(from, to uint64) (a, b []byte) {
	a = r.part(from, to)
	return a, r.part(from+uint64(len(a)), to)
}

// acknowledge drops what the peer has received, and returns an error if it cannot have received that. ack counts modulo 2^32;
// a value from before the last one, in a frame that was sent again, has no effect.
func (r *retained) acknowledge(ack uint32) error {
	n := int32(ack - uint32(r.acked))
	if n <= 0 {
		return nil
	}
	if uint64(n) > r.sent-r.acked {
		return fmt.Errorf("%w: %d bytes are acknowledged, and %d were sent", fabric.ErrCorrupt, n, r.sent-r.acked)
	}
	r.acked += uint64(n)
	return nil
}

// resume makes position the next one to be sent on a new connection. It returns an error if the peer cannot have received what
// is before.
func (r *retained) resume(position uint64) error {
	if position < r.acked || position > r.end {
		return fmt.Errorf("%w: it has received %d bytes of messages, and %d to %d are kept", fabric.ErrCorrupt, position,
			r.acked, r.end)
	}
	r.acked, r.sent = position, position
	return nil
}

// rewriteHeaders writes all headers again, with checksums if checked is true. It returns an error if it finds that the position
// of the peer is within a frame.
func (r *retained) rewriteHeaders(checked bool) error {
	for at := r.acked; at < r.end; {
		var b [headerBytes]byte
		head, rest := r.parts(at, at+headerBytes)
		copy(b[copy(b[:], head):], rest)
		kind, n := storedFrame(b[:])
		body := at + headerBytes
		next := body + uint64(n)
		if kind != kindMessage && kind != kindShutdown || next > r.end {
			return fmt.Errorf("%w: it has received a part of a frame, up to byte %d of messages", fabric.ErrCorrupt, r.acked)
		}
		f := frame{kind: kind, length: n, ack: binary.LittleEndian.Uint32(b[4:])}
		if checked {
			first, second := r.parts(body, next)
			f.sum = addSum(addSum(0, first), second)
		}
		f.put(b[:], checked)
		r.put(at, b[:])
		at = next
	}
	return nil
}

// release frees the memory if nothing is kept.
func (r *retained) release() {
	if r.acked == r.end {
		r.ring = nil
	}
}
