package uverbs

import (
	"encoding/binary"
	"fmt"
	"syscall"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

const (
	gidEntryBytes = 32
	// maxGIDs is as many entries as fit into an attribute, whose length has 16 bits.
	maxGIDs = (1<<16 - 1) / gidEntryBytes
)

// GIDs returns the GIDs of all ports, without the empty entries. n is as many as there can be, the sum of what QueryPort says; if
// there are more the kernel answers EINVAL. EPROTONOSUPPORT and ENOTTY say that the kernel is older than 5.10.
func (c *Context) GIDs(n int) ([]abi.GIDEntry, error) {
	n = min(n, maxGIDs)
	if n <= 0 {
		return nil, nil
	}
	q := c.newQuery(abi.MethodQueryGIDTable, 4, n*gidEntryBytes+8)
	q.value(abi.AttrGIDTableEntrySize, 8, gidEntryBytes)
	q.value(abi.AttrGIDTableFlags, 4, 0)
	entries := q.answer(abi.AttrGIDTableRespEntries, n*gidEntryBytes)
	count := q.answer(abi.AttrGIDTableRespNumEntries, 8)
	if err := q.run("QUERY_GID_TABLE"); err != nil {
		return nil, err
	}
	return decodeGIDs(entries, binary.NativeEndian.Uint64(count))
}

// GID returns one entry of a port's GID table. ENODATA says that it is empty.
func (c *Context) GID(port, index uint32) (abi.GIDEntry, error) {
	q := c.newQuery(abi.MethodQueryGIDEntry, 4, gidEntryBytes)
	q.value(abi.AttrGIDEntryPort, 8, uint64(port))
	q.value(abi.AttrGIDEntryIndex, 8, uint64(index))
	q.value(abi.AttrGIDEntryFlags, 4, 0)
	entry := q.answer(abi.AttrGIDEntryResp, gidEntryBytes)
	if err := q.run("QUERY_GID_ENTRY"); err != nil {
		return abi.GIDEntry{}, err
	}
	es, err := decodeGIDs(entry, 1)
	if err != nil {
		return abi.GIDEntry{}, err
	}
	return es[0], nil
}

// decodeGIDs takes apart count entries of a GID table.
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

// query is an ioctl on the device object that is being laid out: the request, and behind it room for what is answered.
type query struct {
	ctx           *Context
	request, resp []byte
	attr, used    int // where the next attribute and the next answer go
}

const (
	ioctlHeaderBytes = 24
	attrBytes        = 16
)

func (c *Context) newQuery(method uint16, attrs, answer int) *query {
	n := ioctlHeaderBytes + attrs*attrBytes
	mem := make([]byte, n+answer)
	q := &query{ctx: c, request: mem[:n:n], resp: mem[n:], attr: ioctlHeaderBytes}
	copy(q.request, BytesOf(&abi.IoctlHdr{
		Length: uint16(n), ObjectID: abi.ObjectDevice, MethodID: method, NumAttrs: uint16(attrs), DriverID: c.device.Driver,
	}))
	return q
}

func (q *query) add(a abi.Attr) { q.attr += copy(q.request[q.attr:], BytesOf(&a)) }

// value adds an input of some bytes, eight at most, which stands in the attribute itself.
func (q *query) value(id, size uint16, v uint64) {
	q.add(abi.Attr{AttrID: id, Len: size, Flags: abi.AttrMandatory, Data: v})
}

// answer adds an output and returns its memory.
func (q *query) answer(id uint16, size int) []byte {
	b := q.resp[q.used:][:size]
	q.used += size
	q.add(abi.Attr{AttrID: id, Len: uint16(size), Flags: abi.AttrMandatory, Data: address(b)})
	return b
}

func (q *query) run(name string) error {
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
