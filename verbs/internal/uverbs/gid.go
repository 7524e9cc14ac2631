package uverbs

import (
	"encoding/binary"
	"fmt"
	"syscall"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

const (
	gidEntryBytes = 32
	// maxGIDs is the number of entries that fit into an attribute, whose length has 16 bits.
	maxGIDs = (1<<16 - 1) / gidEntryBytes
)

// GIDs returns the GIDs of all ports, without the empty entries. n is the maximum number of entries: the sum of the table lengths
// that QueryPort returns. If there are more, the error is EINVAL. EPROTONOSUPPORT and ENOTTY mean that the kernel is older than
// 5.10.
func (c *Context) GIDs(n int) ([]abi.GIDEntry, error) {
	n = min(n, maxGIDs)
	if n <= 0 {
		return nil, nil
	}
	q := c.newQuery(abi.MethodQueryGIDTable, 4, n*gidEntryBytes+8)
	q.addInput(abi.AttrGIDTableEntrySize, 8, gidEntryBytes)
	q.addInput(abi.AttrGIDTableFlags, 4, 0)
	entries := q.addOutput(abi.AttrGIDTableRespEntries, n*gidEntryBytes)
	count := q.addOutput(abi.AttrGIDTableRespNumEntries, 8)
	if err := q.run("QUERY_GID_TABLE"); err != nil {
		return nil, err
	}
	return decodeGIDs(entries, binary.NativeEndian.Uint64(count))
}

// GID returns one entry of a port's GID table. The error ENODATA means that the entry is empty.
func (c *Context) GID(port, index uint32) (abi.GIDEntry, error) {
	q := c.newQuery(abi.MethodQueryGIDEntry, 4, gidEntryBytes)
	q.addInput(abi.AttrGIDEntryPort, 8, uint64(port))
	q.addInput(abi.AttrGIDEntryIndex, 8, uint64(index))
	q.addInput(abi.AttrGIDEntryFlags, 4, 0)
	entry := q.addOutput(abi.AttrGIDEntryResp, gidEntryBytes)
	if err := q.run("QUERY_GID_ENTRY"); err != nil {
		return abi.GIDEntry{}, err
	}
	es, err := decodeGIDs(entry, 1)
	if err != nil {
		return abi.GIDEntry{}, err
	}
	return es[0], nil
}

// decodeGIDs decodes count entries of a GID table.
func decodeGIDs(b []byte, count uint64) ([]abi.GIDEntry, error) {
	if count > uint64(len(b)/gidEntryBytes) {
		return nil, fmt.Errorf("GID table of %d entries in %d bytes: %w", count, len(b), syscall.EPROTO)
	}
	es := make([]abi.GIDEntry, count)
	for i := range es {
		copy(BytesOf(&es[i]), b[i*gidEntryBytes:])
	}
	return es, nil
}

// ioctlQuery is an ioctl on the device object that is being encoded: the request, followed by space for the outputs.
type ioctlQuery struct {
	ctx                *Context
	request, resp      []byte
	nextAttr, respUsed int // offsets of the next attribute and of the next output
}

const (
	ioctlHeaderBytes = 24
	attrBytes        = 16
)

func (c *Context) newQuery(method uint16, attrs, respLen int) *ioctlQuery {
	n := ioctlHeaderBytes + attrs*attrBytes
	mem := make([]byte, n+respLen)
	q := &ioctlQuery{ctx: c, request: mem[:n:n], resp: mem[n:], nextAttr: ioctlHeaderBytes}
	copy(q.request, BytesOf(&abi.IoctlHdr{
		Length: uint16(n), ObjectID: abi.ObjectDevice, MethodID: method, NumAttrs: uint16(attrs), DriverID: c.device.Driver,
	}))
	return q
}

func (q *ioctlQuery) add(a abi.Attr) { q.nextAttr += copy(q.request[q.nextAttr:], BytesOf(&a)) }

// addInput adds an input of at most eight bytes, which is stored in the attribute itself.
func (q *ioctlQuery) addInput(id, size uint16, v uint64) {
	q.add(abi.Attr{AttrID: id, Len: size, Flags: abi.AttrMandatory, Data: v})
}

// addOutput adds an output and returns its memory.
func (q *ioctlQuery) addOutput(id uint16, size int) []byte {
	b := q.resp[q.respUsed:][:size]
	q.respUsed += size
	q.add(abi.Attr{AttrID: id, Len: uint16(size), Flags: abi.AttrMandatory, Data: address(b)})
	return b
}

func (q *ioctlQuery) run(name string) error {
	if !q.ctx.enter() {
		return q.ctx.fail(name, ErrClosed)
	}
	err := q.ctx.kernel.Ioctl(q.ctx.fd, q.request, q.resp)
	q.ctx.leave()
	if err != nil {
		return q.ctx.fail(name, err)
	}
	return nil
}
