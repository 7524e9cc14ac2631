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

// Of linux/netlink.h.
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

// message is one netlink message; for an error only errno means anything.
type message struct {
	kind  uint16
	errno syscall.Errno
	attrs attrs
}

// attrs are attributes by type. Their values are slices of what was decoded.
type attrs map[uint16][]byte

// decodeMessage takes the first message off a datagram.
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

// decodeAttrs takes a list of attributes apart. Of two of the same type the last one stays.
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

// number is an integer of four or eight bytes. It is false if there is none.
func (a attrs) number(id uint16) (uint64, bool) {
	switch b := a[id]; len(b) {
	case 4:
		return uint64(binary.NativeEndian.Uint32(b)), true
	case 8:
		return binary.NativeEndian.Uint64(b), true
	}
	return 0, false
}

// question lays out a request. The attributes are laid out already.
func question(cmd, flags uint16, attrs []byte) []byte {
	b := make([]byte, nlmsgBytes, nlmsgBytes+len(attrs))
	binary.NativeEndian.PutUint32(b, uint32(nlmsgBytes+len(attrs)))
	binary.NativeEndian.PutUint16(b[4:], nldevTypeTop+cmd)
	binary.NativeEndian.PutUint16(b[6:], nlmRequest|flags)
	return append(b, attrs...)
}

// appendAttr lays out an attribute behind others.
func appendAttr(b []byte, id uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(nlattrBytes+len(value)))
	b = binary.NativeEndian.AppendUint16(b, id)
	b = append(b, value...)
	return append(b, make([]byte, -len(value)&3)...)
}

// find asks for a device by name. ask sends a request and calls got with the messages that answer it, until got says that it has
// all or the kernel that there are no more.
func find(name string, ask func(request []byte, got func(attrs) bool) error) (Device, error) {
	var index []byte
	var others []string
	err := ask(question(nldev.CmdGet, nlmDump, nil), func(a attrs) bool {
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
		return Device{}, fmt.Errorf("%w: the RDMA devices of this network namespace are %q, and %q is none of them",
			syscall.ENODEV, others, name)
	}
	d := Device{Name: name, SysPath: "/sys/class/infiniband/" + name}
	request := appendAttr(appendAttr(nil, nldev.AttrDevIndex, index), nldev.AttrChardevType, []byte("uverbs\x00"))
	complete := false
	err = ask(question(nldev.CmdGetChardev, 0, request), func(a attrs) bool {
		dev, hasDev := a.number(nldev.AttrChardev)
		version, hasVersion := a.number(nldev.AttrChardevABI)
		driver, _ := a.number(nldev.AttrUverbsDriverID) // not of drivers from before there were numbers
		d.Uverbs, d.Dev, d.ABI, d.Driver = a.text(nldev.AttrChardevName), dev, int(version), uint32(driver)
		complete = hasDev && hasVersion && d.Uverbs != ""
		return true
	})
	switch {
	case err != nil:
		return Device{}, fmt.Errorf("look for the uverbs file of %s: %w", name, err)
	case !complete:
		return Device{}, fmt.Errorf("look for the uverbs file of %s: %w: something is missing", name, errNetlink)
	}
	return d, nil
}

// answers goes through a datagram. It is true when nothing more is to come.
func answers(b []byte, got func(attrs) bool) (done bool, err error) {
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
