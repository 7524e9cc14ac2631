//go:build linux && !static && (amd64 || arm64)

package libibverbs

import "sync/atomic"

// sendSpace counts the requests that a send queue can still take. The library reports that a queue is full only when it refuses a
// request. Post stores requests and submits them later, so it must know earlier whether there is space.
//
// A completion also covers the unsignaled requests before its own. So sendSpace has an entry for every signaled request that has
// not completed: the number of requests posted up to it. Post adds entries, and Poll of the completion queue removes them in
// order. Both may run at the same time.
type sendSpace struct {
	qpn               uint32 // number of the queue pair
	size              uint32
	posted            uint32        // requests posted; used by Post only
	completedUpTo     atomic.Uint32 // how many of them are known to have completed; written by Poll
	signaledAt        []uint32      // the entries: a ring whose length is a power of two, at least size
	signaledPosted    atomic.Uint32 // entries added so far; written by Post
	signaledCompleted atomic.Uint32 // entries removed so far; written by Poll

	// untracked is set when completions can no longer be paired with requests: a failed completion does not say whether it belongs
	// to a send, and completions from before a reset may be polled after it. From then on every request is submitted immediately,
	// and the library decides.
	untracked atomic.Bool
}

func newSendSpace(qpn, size uint32) *sendSpace {
	n := uint32(1)
	for n < size {
		n *= 2
	}
	return &sendSpace{qpn: qpn, size: size, signaledAt: make([]uint32, n)}
}

// full reports whether as many completions are outstanding as the queue has entries. Then it is full, even if the device would
// take another request.
func (s *sendSpace) full() bool {
	return !s.untracked.Load() && s.signaledPosted.Load()-s.signaledCompleted.Load() >= s.size
}

// hasSpace reports whether the device certainly takes another request. If not, only the device knows.
func (s *sendSpace) hasSpace() bool {
	return !s.untracked.Load() && s.posted-s.completedUpTo.Load() < s.size
}

// post counts a request.
func (s *sendSpace) post(signaled bool) {
	s.posted++
	if !signaled || s.untracked.Load() {
		return
	}
	n := s.signaledPosted.Load()
	s.signaledAt[n&uint32(len(s.signaledAt)-1)] = s.posted
	s.signaledPosted.Store(n + 1) // after the entry: completed loads signaledPosted first
}

// undoPost reverts the last post. The device has refused the request, so no completion can have removed its entry.
func (s *sendSpace) undoPost(signaled bool) {
	s.posted--
	if signaled && !s.untracked.Load() {
		s.signaledPosted.Add(^uint32(0))
	}
}

// completed counts a completion, which may be from before a reset.
func (s *sendSpace) completed(ok bool) {
	if !ok {
		s.untracked.Store(true)
	}
	n := s.signaledCompleted.Load()
	if s.untracked.Load() || n == s.signaledPosted.Load() {
		return
	}
	s.completedUpTo.Store(s.signaledAt[n&uint32(len(s.signaledAt)-1)])
	s.signaledCompleted.Store(n + 1) // after reading the entry: post may now overwrite it
}
