package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Message is a message that a matched probe has taken: only Mrecv or Imrecv can receive it, once. MPI-5.0 §3.8.2.
type Message core.Message

func (m *Message) core() *core.Message { return (*core.Message)(m) }

// Probe blocks until there is a message that a receive with these arguments would match, and returns its status.
// MPI-5.0 §3.8.1.
func (c *Comm) Probe(src, tag int) (Status, error) { return status(c.core().Probe(src, tag)) }

// Iprobe is Probe without blocking: it reports false if there is no such message. MPI-5.0 §3.8.1.
func (c *Comm) Iprobe(src, tag int) (Status, bool, error) {
	st, ok, err := c.core().Iprobe(src, tag)
	return statusOf(st), ok, public(err)
}

// Mprobe is Probe that also removes the message from the matching queue, so that no other receive gets it.
// MPI-5.0 §3.8.2.
func (c *Comm) Mprobe(src, tag int) (*Message, Status, error) {
	m, st, err := c.core().Mprobe(src, tag)
	return (*Message)(m), statusOf(st), public(err)
}

// Improbe is Mprobe without blocking: it reports false if there is no such message. MPI-5.0 §3.8.2.
func (c *Comm) Improbe(src, tag int) (*Message, Status, bool, error) {
	m, st, ok, err := c.core().Improbe(src, tag)
	return (*Message)(m), statusOf(st), ok, public(err)
}

// Status returns the status of the matched probe: source, tag and length of the message. MPI-5.0 §3.8.2.
func (m *Message) Status() Status { return statusOf(m.core().Status()) }

// Mrecv receives a message that a matched probe has taken, like Recv. MPI-5.0 §3.8.3.
func Mrecv[T any](m *Message, x []T) (Status, error) {
	if !core.IsNumber[T]() {
		return m.Mrecv(elements("Mrecv", x))
	}
	return status(m.core().Mrecv(core.Bytes(x), core.KindOf[T]()))
}

// Imrecv starts to receive a message that a matched probe has taken. MPI-5.0 §3.8.3.
func Imrecv[T any](m *Message, x []T) (Request, error) {
	if !core.IsNumber[T]() {
		return m.Imrecv(elements("Imrecv", x))
	}
	return request(m.core().Imrecv(core.Bytes(x), core.KindOf[T]()))
}
