package uverbs

import abi "github.com/ibrun/ibrun/internal/abi/uverbs"

// Doorbell notifies the driver of new requests in a send queue: it is POST_SEND without a request in it. Any goroutine may ring
// it at any time. Ringing for a queue pair that was destroyed returns an error and has no other effect.
type Doorbell struct {
	ctx     *Context
	command []byte // never changes
}

// doorbellWQEBytes is the size of a request. A doorbell contains no request, but the kernel requires at least the size of a
// struct ib_uverbs_send_wr.
const doorbellWQEBytes = 128

// NewDoorbell encodes the doorbell of a queue pair.
func (c *Context) NewDoorbell(qp uint32) *Doorbell {
	in := abi.PostSend{Response: address(c.doorbellResp), QPHandle: qp, WQESize: doorbellWQEBytes}
	return &Doorbell{ctx: c, command: prepare(abi.CmdPostSend, BytesOf(&in), len(c.doorbellResp))}
}

// Ring rings the doorbell. It is one system call. Up to Linux 6.3 rxe sends as many packets as it can before the call returns.
func (d *Doorbell) Ring() error {
	return d.ctx.runPrepared(abi.CmdPostSend, d.command, d.ctx.doorbellResp)
}

// Notifier requests events on a completion channel. Any goroutine may use it at any time.
type Notifier struct {
	ctx            *Context
	any, solicited []byte // commands; they never change
}

// NewNotifier encodes the commands that request events of a completion queue.
func (c *Context) NewNotifier(cq uint32) *Notifier {
	return &Notifier{
		ctx:       c,
		any:       prepare(abi.CmdReqNotifyCQ, BytesOf(&abi.ReqNotifyCQ{CQHandle: cq}), 0),
		solicited: prepare(abi.CmdReqNotifyCQ, BytesOf(&abi.ReqNotifyCQ{CQHandle: cq, SolicitedOnly: 1}), 0),
	}
}

// Notify requests one event at the next completion, or at the next that is solicited or failed. A completion that is already in
// the queue makes no event: poll once more before waiting.
func (n *Notifier) Notify(solicited bool) error {
	command := n.any
	if solicited {
		command = n.solicited
	}
	return n.ctx.runPrepared(abi.CmdReqNotifyCQ, command, nil)
}

// runPrepared writes a prepared command to the kernel.
func (c *Context) runPrepared(cmd abi.Command, command, resp []byte) error {
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

// prepare encodes a command that is run many times.
func prepare(cmd abi.Command, in []byte, respLen int) []byte {
	frame := make([]byte, headerBytes+len(in))
	header(frame, cmd, len(frame)/4, respLen/4)
	copy(frame[headerBytes:], in)
	return frame
}
