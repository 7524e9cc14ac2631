package uverbs

import (
	"encoding/binary"
	"syscall"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

// Driver is the part of a command that belongs to the device's driver: In follows the kernel's own input, and the driver's
// response is copied to Out. The driver must fill all of Out. Both have lengths that are multiples of four bytes. The caller may
// reuse them when the command returns.
type Driver struct {
	In, Out []byte
}

const (
	headerBytes = 8
	// responseAt is the offset of the response's address in a command: it is the first field of the kernel's input.
	responseAt = headerBytes
	maxWords   = 1<<16 - 1
)

// header writes the header of a command.
func header(b []byte, cmd abi.Command, in, out int) {
	binary.NativeEndian.PutUint32(b, uint32(cmd))
	binary.NativeEndian.PutUint16(b[4:], uint16(in))
	binary.NativeEndian.PutUint16(b[6:], uint16(out))
}

// run runs a command without a response.
func run[In any](c *Context, cmd abi.Command, in *In) error {
	return c.command(cmd, BytesOf(in), nil, Driver{})
}

// call runs a command whose input begins with the field Response.
func call[In, Out any](c *Context, cmd abi.Command, in *In, out *Out, d Driver) error {
	return c.command(cmd, BytesOf(in), BytesOf(out), d)
}

// command encodes a command in one block of memory with space for its response, runs it, and copies the response.
func (c *Context) command(cmd abi.Command, in, out []byte, d Driver) error {
	n := headerBytes + len(in) + len(d.In)
	respLen := len(out) + len(d.Out)
	if n%4 != 0 || respLen%4 != 0 || n/4 > maxWords || respLen/4 > maxWords {
		return c.fail(cmd.String(), syscall.EINVAL)
	}
	mem := make([]byte, n+respLen)
	frame, resp := mem[:n:n], mem[n:]
	header(frame, cmd, n/4, respLen/4)
	copy(frame[headerBytes:], in)
	copy(frame[headerBytes+len(in):], d.In)
	if respLen > 0 {
		binary.NativeEndian.PutUint64(frame[responseAt:], address(resp))
	}
	if err := c.send(cmd, frame, resp); err != nil {
		return err
	}
	copy(d.Out, resp[copy(out, resp):])
	return nil
}

// extended is command for commands with an ExCmdHdr, which counts words of eight bytes and contains the address of the response.
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

// send writes a command to the kernel. The descriptor stays open meanwhile.
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
