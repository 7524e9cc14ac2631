package uverbs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/ibrun/ibrun/internal/abi/nldev"
)

// Constants of linux/netlink.h.
const (
	nlmsgBytes   = 16 // struct nlmsghdr
	nlattrBytes  = 4  // struct nlattr
	nlmsgError   = 2
	nlmsgDone    = 3
	nlmRequest   = 1
	nlmDump      = 0x300
	nlaTypeMask  = 0x3fff
	nldevTypeTop = nldev.Client << 10
)

var errNetlink = errors.New("malformed netlink message")

// message is one netlink message. Of an error message only errno is valid.
type message struct {
	kind  uint16
	errno syscall.Errno
	attrs attrs
}

// attrs are attributes by type. Their values are slices of the decoded message.
type attrs map[uint16][]byte

// decodeMessage decodes the first message of a datagram, and returns the rest of the datagram.
func decodeMessage(b []byte) (m message, rest []byte, err error) {
	if len(b) < nlmsgBytes {
		return message{}, nil, fmt.Errorf("%w: header of %d bytes", errNetlink, len(b))
	}
	n := binary.NativeEndian.Uint32(b)
	if n < nlmsgBytes || uint64(n) > uint64(len(b)) {
		return message{}, nil, fmt.Errorf("%w: %d of %d bytes", errNetlink, n, len(b))
	}
	m.kind = binary.NativeEndian.Uint16(b[4:])
	body, rest := b[nlmsgBytes:n], b[min(int(n+3)&^3, len(b)):]
	switch m.kind {
	case nlmsgDone, nlmsgError:
		if len(body) < 4 {
			return message{}, nil, fmt.Errorf("%w: no error number", errNetlink)
		}
		m.errno = syscall.Errno(-int32(binary.NativeEndian.Uint32(body)))
	default:
		m.attrs, err = decodeAttrs(body)
	}
	return m, rest, err
}

// decodeAttrs decodes a list of attributes. The last of several attributes of the same type is used.
func decodeAttrs(b []byte) (attrs, error) {
	as := attrs{}
	for len(b) > 0 {
		if len(b) < nlattrBytes {
			return nil, fmt.Errorf("%w: attribute of %d bytes", errNetlink, len(b))
		}
		n := int(binary.NativeEndian.Uint16(b))
		if n < nlattrBytes || n > len(b) {
			return nil, fmt.Errorf("%w: attribute of %d in %d bytes", errNetlink, n, len(b))
		}
		as[binary.NativeEndian.Uint16(b[2:])&nlaTypeMask] = b[nlattrBytes:n]
		b = b[min((n+3)&^3, len(b)):]
	}
	return as, nil
}

func (a attrs) text(id uint16) string { return strings.TrimRight(string(a[id]), "\x00") }

// number returns an integer of four or eight bytes, and whether the attribute exists.
func (a attrs) number(id uint16) (uint64, bool) {
	switch b := a[id]; len(b) {
	case 4:
		return uint64(binary.NativeEndian.Uint32(b)), true
	case 8:
		return binary.NativeEndian.Uint64(b), true
	}
	return 0, false
}

// newRequest returns a request with encoded attributes.
func newRequest(cmd, flags uint16, attrs []byte) []byte {
	b := make([]byte, nlmsgBytes, nlmsgBytes+len(attrs))
	binary.NativeEndian.PutUint32(b, uint32(nlmsgBytes+len(attrs)))
	binary.NativeEndian.PutUint16(b[4:], nldevTypeTop+cmd)
	binary.NativeEndian.PutUint16(b[6:], nlmRequest|flags)
	return append(b, attrs...)
}

// appendAttr appends an encoded attribute.
func appendAttr(b []byte, id uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(nlattrBytes+len(value)))
	b = binary.NativeEndian.AppendUint16(b, id)
	b = append(b, value...)
	return append(b, make([]byte, -len(value)&3)...)
}

// find returns the device with the given name. send sends a request and calls got with each reply, until got returns true or the
// kernel has sent the last reply.
func find(name string, send func(request []byte, got func(attrs) bool) error) (Device, error) {
	var index []byte
	var others []string
	err := send(newRequest(nldev.CmdGet, nlmDump, nil), func(a attrs) bool {
		if a.text(nldev.AttrDevName) == name {
			index = slices.Clone(a[nldev.AttrDevIndex])
		}
		others = append(others, a.text(nldev.AttrDevName))
		return false
	})
	if err != nil {
		return Device{}, fmt.Errorf("list RDMA devices: %w", err)
	}
	if len(index) != 4 {
		return Device{}, fmt.Errorf("%w: %q; the RDMA devices of this network namespace are %q",
			syscall.ENODEV, name, others)
	}
	d := Device{Name: name, SysPath: "/sys/class/infiniband/" + name}
	request := appendAttr(appendAttr(nil, nldev.AttrDevIndex, index), nldev.AttrChardevType, []byte("uverbs\x00"))
	complete := false
	err = send(newRequest(nldev.CmdGetChardev, 0, request), func(a attrs) bool {
		dev, hasDev := a.number(nldev.AttrChardev)
		version, hasVersion := a.number(nldev.AttrChardevABI)
		driver, _ := a.number(nldev.AttrUverbsDriverID) // older drivers have no number
		d.Uverbs, d.Dev, d.ABI, d.Driver = a.text(nldev.AttrChardevName), dev, int(version), uint32(driver)
		complete = hasDev && hasVersion && d.Uverbs != ""
		return true
	})
	switch {
	case err != nil:
		return Device{}, fmt.Errorf("find the uverbs file of %s: %w", name, err)
	case !complete:
		return Device{}, fmt.Errorf("find the uverbs file of %s: %w: an attribute is missing", name, errNetlink)
	}
	return d, nil
}

// handleReplies calls got with each message of a datagram. It returns true after the last reply.
func handleReplies(b []byte, got func(attrs) bool) (done bool, err error) {
	for len(b) > 0 {
		var m message
		if m, b, err = decodeMessage(b); err != nil {
			return false, err
		}
		switch {
		case m.errno != 0:
			return true, m.errno
		case m.attrs == nil || got(m.attrs):
			return true, nil
		}
	}
	return false, nil
}
