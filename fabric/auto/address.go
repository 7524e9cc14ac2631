package auto

import (
	"errors"
	"fmt"
)

// The address of a process lists its domains, each by the name of the transport and its address there:
//
//	1 byte    length of the name
//	name
//	1 byte    length of the address
//	address

// errAddress is the error for an address that is not in this format.
var errAddress = errors.New("malformed address")

// appendAddress appends a transport and its address to the address of a process.
func appendAddress(all []byte, name string, addr []byte) []byte {
	all = append(append(all, byte(len(name))), name...)
	return append(append(all, byte(len(addr))), addr...)
}

// transportAddr is the address that a transport of a process has.
type transportAddr struct {
	name string
	addr []byte
}

// parseAddresses parses the address of a process. A transport that has several domains is listed several times.
func parseAddresses(all []byte) ([]transportAddr, error) {
	var addrs []transportAddr
	for len(all) > 0 {
		name, rest, ok := cutField(all)
		addr, rest, ok2 := cutField(rest)
		if !ok || !ok2 || len(name) == 0 {
			return nil, fmt.Errorf("%w: %x", errAddress, all)
		}
		addrs = append(addrs, transportAddr{string(name), addr})
		all = rest
	}
	return addrs, nil
}

// cutField splits off a field that begins with a byte for its length.
func cutField(b []byte) (f, rest []byte, ok bool) {
	if len(b) == 0 || int(b[0]) > len(b)-1 {
		return nil, nil, false
	}
	n := 1 + int(b[0])
	return b[1:n], b[n:], true
}
