package verbs

// HoldLocks locks what posts to a pair lock unless the pair is serialized, until release is called.
func (q *QP) HoldLocks() (release func()) {
	q.send.mu.Lock()
	q.recv.mu.Lock()
	return func() {
		q.send.mu.Unlock()
		q.recv.mu.Unlock()
	}
}
