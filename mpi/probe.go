package mpi

import (
	"context"

	"github.com/ibrun/ibrun/mpi/internal/core"
)

// Message is a message that a matched probe has taken: only Mrecv or Imrecv can receive it, once. MPI-5.0 §3.8.2.
type Message core.Message

func (m *Message) core() *core.Message { return (*core.Message)(m) }

// message returns the results of a call of core.
func message(m *core.Message, st core.Status, err error) (*Message, Status, error) {
	return (*Message)(m), statusOf(st), public(err)
}

// Probe blocks until there is a message that a receive with these arguments would match, and returns its status.
// MPI-5.0 §3.8.1.
func (c *Comm) Probe(src, tag int) (Status, error) {
	return status(core.Probe(context.Background(), c.core(), src, tag))
}

// Iprobe is Probe without blocking: it reports false if there is no such message. MPI-5.0 §3.8.1.
func (c *Comm) Iprobe(src, tag int) (Status, bool, error) {
	st, ok, err := core.Iprobe(c.core(), src, tag)
	return statusOf(st), ok, public(err)
}

// Mprobe is Probe that also removes the message from the matching queue, so that no other receive gets it.
// MPI-5.0 §3.8.2.
func (c *Comm) Mprobe(src, tag int) (*Message, Status, error) {
	return message(core.Mprobe(context.Background(), c.core(), src, tag))
}

// Improbe is Mprobe without blocking: it reports false if there is no such message. MPI-5.0 §3.8.2.
func (c *Comm) Improbe(src, tag int) (*Message, Status, bool, error) {
	m, st, ok, err := core.Improbe(c.core(), src, tag)
	return (*Message)(m), statusOf(st), ok, public(err)
}

// Status returns the status of the matched probe: source, tag and length of the message. MPI-5.0 §3.8.2.
func (m *Message) Status() Status { return statusOf(m.core().Status()) }

// Mrecv receives a message that a matched probe has taken, like Recv. MPI-5.0 §3.8.3.
func Mrecv[T any](m *Message, x []T) (Status, error) {
	v := elements("Mrecv", x)
	return m.mrecv(&v)
}

// Mrecv is [Mrecv] into a view. MPI-5.0 §3.8.3.
func (m *Message) Mrecv(v View) (Status, error) { return m.mrecv(&v) }

func (m *Message) mrecv(v *View) (Status, error) {
	if v.err != nil {
		return failedStatus((*Comm)(m.core().Comm()), "Mrecv", v.err)
	}
	return status(m.core().Mrecv(&v.data))
}

// Imrecv starts to receive a message that a matched probe has taken. MPI-5.0 §3.8.3.
func Imrecv[T any](m *Message, x []T) (Request, error) { return m.Imrecv(elements("Imrecv", x)) }

// Imrecv is [Imrecv] into a view. MPI-5.0 §3.8.3.
func (m *Message) Imrecv(v View) (Request, error) {
	if v.err != nil {
		return Request{}, (*Comm)(m.core().Comm()).callError("Imrecv", v.err)
	}
	return request(m.core().Imrecv(&v.data))
}
