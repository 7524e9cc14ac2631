package record

import "github.com/ibrun/ibrun/perf"

// BeginOp must be called when an operation begins that consists of several calls of the engine; see
// perf.Recorder. n is its length in bytes. It returns when the operation began.
func (c *Recording) BeginOp(op perf.Op, n int) (began uint64) { return c.Active.Begin(op, n) }

// BeginCounted is BeginOp for an operation whose end need not be recorded if it returns 0: the
// operation has been counted.
func (c *Recording) BeginCounted(op perf.Op, n int) (began uint64) {
	if began = c.Active.Begin(op, n); began == 0 {
		c.EndOp(op, n, 0)
	}
	return began
}

// EndOp records the end of an operation. began is the result of BeginOp.
func (c *Recording) EndOp(op perf.Op, n int, began uint64) {
	if c.Active == nil {
		return
	}
	c.mu.Lock()
	c.Active.End(op, n, began)
	c.mu.Unlock()
}

// EndOpOn is EndOp for an operation on the communicator of a context.
func (c *Recording) EndOpOn(context uint32, op perf.Op, n int, began uint64) {
	if c.Active == nil {
		return
	}
	c.mu.Lock()
	if c.Trace != nil && !op.IsWithin() {
		c.Active.SetName(c.names[context])
	}
	c.Active.End(op, n, began)
	c.mu.Unlock()
}

// NameContext gives the communicator of a context a name, which is recorded for its operations. ""
// removes the name.
func (c *Recording) NameContext(context uint32, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	number := c.Configured.Name(name)
	if number == 0 {
		delete(c.names, context)
		return
	}
	if c.names == nil {
		c.names = map[uint32]uint8{}
	}
	c.names[context] = number
}

// Called records that the program calls an operation.
func (c *Recording) Called(op perf.Op) {
	c.mu.Lock()
	c.Configured.Called(op)
	c.mu.Unlock()
}

// Progress records the progress that the program reports about itself.
func (c *Recording) Progress(done, total uint64) {
	c.mu.Lock()
	c.Configured.Progress(done, total)
	c.mu.Unlock()
}

// StartTrace writes operations and messages to the trace of the configuration from now on, with
// times from the clock now. No operation may be in progress.
func (c *Recording) StartTrace(now func() int64) {
	c.mu.Lock()
	c.Configured.Trace(c.Trace, now)
	c.mu.Unlock()
}
