package protocols

import "sync/atomic"

// A message that both sides copy (RendezvousShared) is divided into pieces. The receiver reads
// pieces from the front while the sender writes pieces from the back. Both claim pieces in a shared
// word, so each piece is moved once.

// maxPieceBytes is the length of the longest piece. A copy of so many bytes takes much longer than
// the system call around it. At the end one side waits for one piece at most.
const maxPieceBytes = 512 << 10

// minPairBytes is the length of the shortest message that has two pieces.
const minPairBytes = 16 << 10

// pieceBytes returns the unit in which the two sides claim pieces of a message of n bytes. A short
// message is one piece, so that of several messages each side moves some. A longer one has an even
// number, so that both sides can move the same: two, because each system call costs several
// microseconds beside the copy, or more if these would exceed maxPieceBytes.
func pieceBytes(n int) int {
	if n < minPairBytes {
		return n
	}
	pairs := (n + 2*maxPieceBytes - 1) / (2 * maxPieceBytes)
	return ((n+2*pairs-1)/(2*pairs) + 4095) &^ 4095
}

// PieceBounds returns the bounds of piece i of a message of n bytes.
func PieceBounds(i, n int) (from, to int) {
	size := pieceBytes(n)
	return i * size, min((i+1)*size, n)
}

// PieceCount returns the number of pieces of a message of n bytes, which is not 0.
func PieceCount(n int) int { return (n + pieceBytes(n) - 1) / pieceBytes(n) }

// ClaimFront claims the next piece from the front, of so many in all, in a word that both sides
// share. It returns its number, or -1 if all pieces are claimed. The upper half of the word counts
// the pieces that are claimed from the back. The compare-and-swap is paired with that of the other
// process.
func ClaimFront(w *uint64, pieces int) int {
	for {
		v := atomic.LoadUint64(w)
		front, back := int(uint32(v)), int(v>>32)
		if front+back >= pieces {
			return -1
		}
		if atomic.CompareAndSwapUint64(w, v, v+1) {
			return front
		}
	}
}

// ClaimBack is ClaimFront from the back.
func ClaimBack(w *uint64, pieces int) int {
	for {
		v := atomic.LoadUint64(w)
		front, back := int(uint32(v)), int(v>>32)
		if front+back >= pieces {
			return -1
		}
		if atomic.CompareAndSwapUint64(w, v, v+1<<32) {
			return pieces - 1 - back
		}
	}
}
