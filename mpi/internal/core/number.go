package core

// Number is memory for two numbers: what a call sends and what it receives. A variable of the caller would be allocated on each
// call, since the engine keeps the buffers of requests. A process keeps these for reuse.
type Number struct{ words [2 * numberWords]uint64 }

// numberWords is the length of the longest number, complex128, in words.
const numberWords = 2

// Bytes returns the memory of the two numbers.
func (n *Number) Bytes() (sent, received []byte) {
	b := Bytes(n.words[:])
	return b[:8*numberWords], b[8*numberWords:]
}

// TakeNumber returns memory for two numbers, until ReturnNumber.
func (c *Comm) TakeNumber() *Number {
	if !c.isNone() {
		if n, ok := c.proc.numbers.Get().(*Number); ok {
			return n
		}
	}
	return new(Number)
}

// ReturnNumber makes the memory available for later calls, unless the call has failed: the operation may then still be in
// progress.
func (c *Comm) ReturnNumber(n *Number, err error) {
	if err == nil {
		c.proc.numbers.Put(n)
	}
}
