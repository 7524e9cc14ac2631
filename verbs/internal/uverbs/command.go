package uverbs

import (
	"encoding/binary"
	"syscall"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

// Driver is what a command carries for the device's driver: In goes behind the kernel's own input, and the driver's answer
// is copied into Out, all of which the driver must know how to fill. Both have whole words of four bytes, and are the caller's
// again when the command returns.
type Driver struct {
	In, Out []byte
}

const (
	headerBytes = 8
	// responseAt is where in a command the address of the answer stands: first in the kernel's input.
	responseAt = headerBytes
	maxWords   = 1<<16 - 1
)

// header writes the opening of a command.
func header(b []byte, cmd abi.Command, in, out int) {
	binary.NativeEndian.PutUint32(b, uint32(cmd))
	binary.NativeEndian.PutUint16(b[4:], uint16(in))
	binary.NativeEndian.PutUint16(b[6:], uint16(out))
}

// run runs a command without an answer.
func run[In any](c *Context, cmd abi.Command, in *In) error {
	return c.command(cmd, BytesOf(in), nil, Driver{})
}

// call runs a command whose input begins with the field Response.
func call[In, Out any](c *Context, cmd abi.Command, in *In, out *Out, d Driver) error {
	return c.command(cmd, BytesOf(in), BytesOf(out), d)
}

// command lays out a command and the room for its answer in one piece of memory, runs it, and copies the answer.
func (c *Context) command(cmd abi.Command, in, out []byte, d Driver) error {
	n := headerBytes + len(in) + len(d.In)
	answer := len(out) + len(d.Out)
	if n%4 != 0 || answer%4 != 0 || n/4 > maxWords || answer/4 > maxWords {
		return c.fail(cmd.String(), syscall.EINVAL)
	}
	mem := make([]byte, n+answer)
	frame, resp := mem[:n:n], mem[n:]
	header(frame, cmd, n/4, answer/4)
	copy(frame[headerBytes:], in)
	copy(frame[headerBytes+len(in):], d.In)
	if answer > 0 {
		binary.NativeEndian.PutUint64(frame[responseAt:], address(resp))
	}
	if err := c.send(cmd, frame, resp); err != nil {
		return err
	}
	copy(d.Out, resp[copy(out, resp):])
	return nil
}

// extended is command for the form with an ExCmdHdr, which counts words of eight bytes and has the address of the answer.
func (c *Context) extended(cmd abi.Command, in, out []byte) error {
	const headers = 24
	mem := make([]byte, headers+len(in)+len(out))
	n := headers + len(in)
	frame, resp := mem[:n:n], mem[n:]
	header(frame, cmd, len(in)/8, len(out)/8)
	binary.NativeEndian.PutUint64(frame[responseAt:], address(resp))
	copy(frame[headers:], in)
	if err := c.send(cmd, frame, resp); err != nil {
		return err
	}
	copy(out, resp)
	return nil
}

// send gives a command to the kernel. Its descriptor stays open meanwhile.
func (c *Context) send(cmd abi.Command, frame, resp []byte) error {
	if !c.enter() {
		return c.fail(cmd.String(), ErrClosed)
	}
	err := c.kernel.Write(c.fd, frame, resp)
	c.leave()
	if err != nil {
		return c.fail(cmd.String(), err)
	}
	return nil
}
