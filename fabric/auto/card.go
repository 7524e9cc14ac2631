package auto

import (
	"errors"
	"fmt"
)

// A card is what a process publishes so that others can connect to it: for each of its transports
//
//	1 byte    length of the name
//	name
//	1 byte    length of the address
//	address
//
// errCard says that a card is none.
var errCard = errors.New("malformed address")

// appendCard adds a transport to a card.
func appendCard(card []byte, name string, addr []byte) []byte {
	card = append(append(card, byte(len(name))), name...)
	return append(append(card, byte(len(addr))), addr...)
}

// parseCard takes a card apart, by name of transport.
func parseCard(card []byte) (map[string][]byte, error) {
	addrs := map[string][]byte{}
	for len(card) > 0 {
		name, rest, ok := field(card)
		addr, rest, ok2 := field(rest)
		if !ok || !ok2 || len(name) == 0 {
			return nil, fmt.Errorf("%w: %x", errCard, card)
		}
		addrs[string(name)] = addr
		card = rest
	}
	return addrs, nil
}

// field splits off what a byte tells the length of.
func field(b []byte) (f, rest []byte, ok bool) {
	if len(b) == 0 || int(b[0]) > len(b)-1 {
		return nil, nil, false
	}
	n := 1 + int(b[0])
	return b[1:n], b[n:], true
}
