// Package transports is the table of ibrun's transports: their numbers, their names, and what a user may choose.
//
// It imports nothing, so that every part of the tree can refer to it: the implementations in package fabric, the recorder in
// package perf and the commands. A new transport begins with a line here. Tests of fabric/auto and perf then fail until it has an
// implementation and is recorded.
package transports

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Transport is one transport. Package perf records these numbers in memory that other programs read, so they never change: add
// new ones at the end.
type Transport uint8

// The transports.
const (
	Other Transport = iota // a transport that this version does not know
	Mem
	Shm
	TCP
	RDMA
	Count // the number of transports, Other included
)

// Auto is the name by which users leave the choice to ibrun.
const Auto = "auto"

var table = [Count]struct{ name, description string }{
	Other: {"other", "a transport that this version does not know"},
	Mem:   {"mem", "memory of one process"},
	Shm:   {"shm", "shared memory between ranks of one node"},
	TCP:   {"tcp", "TCP between any two ranks"},
	RDMA:  {"rdma", "RDMA between ranks whose nodes have a device"},
}

// String returns the name that users type, such as "shm".
func (t Transport) String() string {
	if t < Count {
		return table[t].name
	}
	return fmt.Sprintf("Transport(%d)", uint8(t))
}

// Description says in a few words what the transport is, for help texts.
func (t Transport) Description() string {
	if t < Count {
		return table[t].description
	}
	return ""
}

// Named returns the transport with this name, or Other.
func Named(name string) Transport {
	for t := Mem; t < Count; t++ {
		if table[t].name == name {
			return t
		}
	}
	return Other
}

// Selectable returns the transports that users may choose, in the order in which ibrun prefers them.
func Selectable() []Transport { return []Transport{Shm, RDMA, TCP} }

// SelectableNames returns the names of the Selectable transports.
func SelectableNames() []string {
	var names []string
	for _, t := range Selectable() {
		names = append(names, t.String())
	}
	return names
}

// ErrUnknown is the error for a name that is not in the table, or that users cannot choose.
var ErrUnknown = errors.New("unknown transport")

// ParseList parses a user's list of transports, such as "shm,tcp". An empty list and "auto" allow all: the result is nil.
func ParseList(list string) ([]string, error) {
	if list == "" || list == Auto {
		return nil, nil
	}
	names := strings.Split(list, ",")
	for _, name := range names {
		if !slices.Contains(SelectableNames(), name) {
			return nil, fmt.Errorf("%w %.60q: choose from %s, or %s for all of them", ErrUnknown, name,
				strings.Join(SelectableNames(), ", "), Auto)
		}
	}
	return names, nil
}
