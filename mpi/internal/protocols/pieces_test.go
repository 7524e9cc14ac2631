package protocols

import "testing"

// TestPieces: the pieces of a message follow each other, and are neither too long nor, unless there
// is one, odd in number.
func TestPieces(t *testing.T) {
	for _, near := range []int{1, minPairBytes, 2 * 4096, 3 * 4096, 1 << 20, 5 << 18, 3 << 19, 2 << 20, 5 << 19, 16 << 20} {
		for n := max(1, near-2); n <= near+2; n++ {
			count, end := PieceCount(n), 0
			for i := range count {
				from, to := PieceBounds(i, n)
				if from != end || to <= from || to-from > maxPieceBytes {
					t.Errorf("piece %d of %d of %d bytes is from %d to %d, after %d", i, count, n, from, to, end)
				}
				end = to
			}
			if end != n || n < minPairBytes && count != 1 || n >= minPairBytes && count%2 != 0 {
				t.Errorf("%d bytes are in %d pieces, which end at %d", n, count, end)
			}
		}
	}
}
