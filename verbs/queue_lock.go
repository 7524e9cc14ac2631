package verbs

import "sync"

// queueLock is the lock of a send queue or a receive queue. Calls on the queue hold it. If the queue is serialized, see
// [QPConfig], they take nothing: the caller keeps them apart.
//
// The compiler inlines lock and unlock, as it does those of the mutex. With mu behind shared it would not inline unlock.
type queueLock struct {
	// mu is held by calls on a shared queue. Changes that package verbs makes by itself, such as that of a lost device, hold it for
	// any queue, so that they do not overlap each other. What such a change writes and a call reads is atomic.
	mu     sync.Mutex
	calls  serializedCalls
	shared bool // the queue is not serialized; constant once the object is created
}

// lock begins a call on the queue.
func (l *queueLock) lock() {
	if l.shared {
		l.mu.Lock()
	} else {
		l.calls.count()
	}
}

// unlock ends a call that lock began.
func (l *queueLock) unlock() {
	if l.shared {
		l.mu.Unlock()
	}
}

// lockState begins a change of the state of the queue that the caller of package verbs has asked for. The promise of a serialized
// queue covers it. The caller must unlock mu.
func (l *queueLock) lockState() {
	l.mu.Lock()
	l.calls.count()
}
