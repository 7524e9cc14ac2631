package core

import "sync"

// Number is memory for two numbers: what a call sends and what it receives. A variable of the
// caller would be allocated on each call, since the engine keeps the buffers of requests. A process
// keeps these for reuse.
type Number struct {
	words [2 * numberWords]uint64
	pool  *sync.Pool // of the process; nil: it belongs to none, since there is no communicator
}

// numberWords is the length of the longest number, complex128, in words.
const numberWords = 2

// Bytes returns the memory of the two numbers.
func (n *Number) Bytes() (sent, received []byte) {
	b := Bytes(n.words[:])
	return b[:8*numberWords], b[8*numberWords:]
}

// TakeNumber returns memory for two numbers of a call on c, until Return.
func TakeNumber(c *Comm) *Number {
	if c.isNone() {
		return new(Number)
	}
	pool := &c.proc.numbers
	if n, ok := pool.Get().(*Number); ok {
		return n
	}
	return &Number{pool: pool}
}

// Return makes the memory available for later calls, unless the call has failed: the operation may
// then still be in progress.
func (n *Number) Return(err error) {
	// A number of the pool that an operation still writes to would change the result of another
	// call.
	if err == nil {
		n.pool.Put(n)
	}
}
