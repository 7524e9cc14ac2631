// Package sockets measures the lower bound for messages over TCP on this machine: two sockets in two processes that spin on
// bare system calls and do nothing with the messages. `ibrun bench versus --transport tcp` prints it next to the figures of
// ibrun.
//
//	test := sockets.Test{Op: "latency", Sizes: []int{8}, Time: 50 * time.Millisecond, Port: 7000}
//	err := sockets.Serve(test)            // in one process
//	figures, err := sockets.Call(test)    // in another, once the first listens
//
// The operations and units are those of package bench: latency is a ping-pong; bw is windows of 64 messages, each window
// answered by one byte.
package sockets

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrNotSupported is returned on systems other than Linux.
var ErrNotSupported = errors.New("bare sockets are measured on Linux only")

// Test describes a measurement. Both processes must have the same.
type Test struct {
	Op    string        `json:"op"`    // one of Ops
	Sizes []int         `json:"sizes"` // message sizes in bytes, at least 1
	Time  time.Duration `json:"time"`  // approximate duration for each size
	Port  int           `json:"port"`  // on 127.0.0.1
}

// Ops returns the operations: those of package bench with two ranks.
func Ops() []string { return []string{"latency", "bw"} }

// window is how many messages are answered by one byte.
const window = 64

// rounds returns how many round trips, or windows, take about t.Time on a usual machine. Both sides compute the same number.
func (t Test) rounds(size int) int {
	const each, bytesPerNano = 6 * time.Microsecond, 2 // of a message
	round := 2 * (each + time.Duration(size/bytesPerNano))
	if t.Op == "bw" {
		round = each + window*time.Duration(size/bytesPerNano)
	}
	return max(int(t.Time/round), 3)
}

func (t Test) check() error {
	if !slices.Contains(Ops(), t.Op) {
		return fmt.Errorf("sockets: unknown operation %q; choose latency or bw", t.Op)
	}
	for _, n := range t.Sizes {
		if n < 1 {
			return fmt.Errorf("sockets: invalid message size %d: want at least 1", n)
		}
	}
	return nil
}
