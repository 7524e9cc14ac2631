package verbs

// The device can be removed while it is open. Its event EventDeviceFatal, or an error of the event descriptor, then calls
// Context.deviceLost, which calls the onDeviceLost of every open object.

// deviceLost notes that the device is lost. Goroutines that wait for it return.
func (c *Context) deviceLost() {
	c.lost.Store(true)
	var notify []func()
	c.mu.Lock()
	for b := range c.objects {
		if b.onDeviceLost != nil {
			notify = append(notify, b.onDeviceLost)
		}
	}
	c.mu.Unlock()
	for _, f := range notify {
		f()
	}
}

// deviceLost makes posts fail from now on.
func (q *QP) deviceLost() {
	q.send.mu.Lock()
	q.recv.mu.Lock()
	defer q.send.mu.Unlock()
	defer q.recv.mu.Unlock()
	q.send.state.Store(sendDeviceLost)
	q.recv.open.Store(false)
}

// deviceLost makes posts fail from now on.
func (s *SRQ) deviceLost() {
	s.q.mu.Lock()
	s.q.open.Store(false)
	s.q.mu.Unlock()
}
