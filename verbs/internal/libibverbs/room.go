//go:build linux && !static && (amd64 || arm64)

package libibverbs

import "sync/atomic"

// room counts what a send queue can still take. The library tells that a queue is full only when it refuses a request; to gather
// requests and still answer each Post at once, the provider has to know it before.
//
// A completion stands for its request and the unsignaled ones before it. So for every signaled request under way there is a
// mark: the number of requests posted up to it. Post makes marks, Poll of the queue's completions takes them in order; they
// may run at the same time.
type room struct {
	size  uint32
	sent  uint32        // requests posted; of Post
	over  atomic.Uint32 // of these, how many are known to be over; written by Poll
	marks []uint32      // a power of two of them, at least size
	made  atomic.Uint32 // marks ever made; written by Post
	taken atomic.Uint32 // marks ever taken; written by Poll

	// blind is set when completions can no longer be paired with requests: failed ones do not say whether they are of a send, and
	// those of before a reset may come after it. From then on the library is asked for every single request.
	blind atomic.Bool
}

func newRoom(size uint32) *room {
	n := uint32(1)
	for n < size {
		n *= 2
	}
	return &room{size: size, marks: make([]uint32, n)}
}

// full tells that as many completions are outstanding as the queue has entries. Then it is full, whatever the device says.
func (r *room) full() bool { return !r.blind.Load() && r.made.Load()-r.taken.Load() >= r.size }

// sure tells that the device is certain to take another request. If not, it has to be asked.
func (r *room) sure() bool { return !r.blind.Load() && r.sent-r.over.Load() < r.size }

// post counts a request.
func (r *room) post(signaled bool) {
	r.sent++
	if !signaled || r.blind.Load() {
		return
	}
	n := r.made.Load()
	r.marks[n&uint32(len(r.marks)-1)] = r.sent
	r.made.Store(n + 1) // after the mark: Poll looks at made first
}

// unpost takes the last post back: the device refused it, so no completion can have taken its mark.
func (r *room) unpost(signaled bool) {
	r.sent--
	if signaled && !r.blind.Load() {
		r.made.Add(^uint32(0))
	}
}

// completed counts a completion, which may be one of before a reset.
func (r *room) completed(ok bool) {
	if !ok {
		r.blind.Store(true)
	}
	n := r.taken.Load()
	if r.blind.Load() || n == r.made.Load() {
		return
	}
	r.over.Store(r.marks[n&uint32(len(r.marks)-1)])
	r.taken.Store(n + 1) // after reading the mark: Post may now write there
}
