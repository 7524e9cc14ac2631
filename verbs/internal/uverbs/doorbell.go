package uverbs

import abi "github.com/ibrun/ibrun/internal/abi/uverbs"

// Doorbell tells the driver that there are new requests in a send queue: it is POST_SEND without a request in it. Any goroutine
// may ring it at any time. To ring for a queue pair that was destroyed is an error and otherwise harmless.
type Doorbell struct {
	ctx     *Context
	command []byte // never changes
}

// doorbellWQEBytes is the size of a request. There is none, but the kernel wants it to be that of a struct ib_uverbs_send_wr at
// least.
const doorbellWQEBytes = 128

// NewDoorbell prepares the doorbell of a queue pair.
func (c *Context) NewDoorbell(qp uint32) *Doorbell {
	in := abi.PostSend{Response: address(c.sink), QPHandle: qp, WQESize: doorbellWQEBytes}
	return &Doorbell{ctx: c, command: prepare(abi.CmdPostSend, BytesOf(&in), len(c.sink))}
}

// Ring rings. It is one system call, and up to Linux 6.3 rxe sends what it can before that returns.
func (d *Doorbell) Ring() error { return d.ctx.repeat(abi.CmdPostSend, d.command, d.ctx.sink) }

// Notifier asks for an event on a completion channel. Any goroutine may use it at any time.
type Notifier struct {
	ctx            *Context
	any, solicited []byte // commands; they never change
}

// NewNotifier prepares the requests for events of a completion queue.
func (c *Context) NewNotifier(cq uint32) *Notifier {
	return &Notifier{
		ctx:       c,
		any:       prepare(abi.CmdReqNotifyCQ, BytesOf(&abi.ReqNotifyCQ{CQHandle: cq}), 0),
		solicited: prepare(abi.CmdReqNotifyCQ, BytesOf(&abi.ReqNotifyCQ{CQHandle: cq, SolicitedOnly: 1}), 0),
	}
}

// Notify asks for one event at the next completion, or at the next that is solicited or failed. A completion that is in the queue
// already makes none: poll once more before waiting.
func (n *Notifier) Notify(solicited bool) error {
	command := n.any
	if solicited {
		command = n.solicited
	}
	return n.ctx.repeat(abi.CmdReqNotifyCQ, command, nil)
}

// repeat gives a prepared command to the kernel.
func (c *Context) repeat(cmd abi.Command, command, resp []byte) error {
	if !c.enter() {
		return c.fail(cmd.String(), ErrClosed)
	}
	err := c.post(c.fd, command, resp)
	c.leave()
	if err != nil {
		return c.fail(cmd.String(), err)
	}
	return nil
}

// prepare lays out a command once and for all.
func prepare(cmd abi.Command, in []byte, answer int) []byte {
	frame := make([]byte, headerBytes+len(in))
	header(frame, cmd, len(frame)/4, answer/4)
	copy(frame[headerBytes:], in)
	return frame
}
