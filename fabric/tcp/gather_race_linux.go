//go:build race

package tcp

// gather copies memory that may be registered, hidden from the race detector. The program writes such memory before it notifies a
// peer to read it. So the network orders the two, which the race detector does not see. It does not see the reads of a system
// call either.
//
//go:norace
func gather(dst, src []byte) int {
	n := min(len(dst), len(src))
	for i := range n {
		dst[i] = src[i]
	}
	return n
}
