package verbs

// The device can be removed while it is open. Its event EventDeviceFatal, or an error of the event descriptor, then calls
// Context.deviceLost, which calls the onDeviceLost of every open object. That of an object that is opened later is called then.

// deviceLoss says how this process has found that a device is lost.
type deviceLoss struct {
	cause error // why no events can be read, or nil if an event has said it
}

// deviceLost notes that the device is lost. Goroutines that wait for it return. Only the first call sets the cause: what fails
// later may be a consequence.
func (c *Context) deviceLost(cause error) {
	c.lost.CompareAndSwap(nil, &deviceLoss{cause})
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

// causeOf returns why the device is lost if an error of this kind says that it is. It is nil for other kinds, and if there is no
// error behind the loss.
func (c *Context) causeOf(kind error) error {
	if l := c.lost.Load(); l != nil && kind == ErrDeviceLost {
		return l.cause
	}
	return nil
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
