// Package sockets measures the least that any message over TCP costs on this machine: two sockets in two processes, spun on with
// bare system calls, with nothing in the messages and nothing done with them. `ibrun bench versus --transport tcp` puts it
// beside ours.
//
//	test := sockets.Test{Op: "latency", Sizes: []int{8}, Time: 50 * time.Millisecond, Port: 7000}
//	err := sockets.Serve(test)            // in one process
//	figures, err := sockets.Call(test)    // in another, once the first listens
//
// The operations are those of package bench, with its units: latency, a ping-pong, and bw, windows of 64 messages that are
// answered by one byte each.
package sockets

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrNotSupported says that this system cannot do it.
var ErrNotSupported = errors.New("bare sockets are measured on Linux only")

// Test says what is measured; both processes have the same.
type Test struct {
	Op    string        `json:"op"`    // one of Ops
	Sizes []int         `json:"sizes"` // of messages, in bytes, 1 at least
	Time  time.Duration `json:"time"`  // that each size takes, about
	Port  int           `json:"port"`  // on 127.0.0.1
}

// Ops are the operations: those of package bench with two ranks.
func Ops() []string { return []string{"latency", "bw"} }

// window is how many messages are answered by one byte.
const window = 64

// turns is how many round trips, or windows, fill about the time on a usual machine. Both sides count alike.
func (t Test) turns(size int) int {
	const each, bytesPerNano = 6 * time.Microsecond, 2 // of a message
	turn := 2 * (each + time.Duration(size/bytesPerNano))
	if t.Op == "bw" {
		turn = each + window*time.Duration(size/bytesPerNano)
	}
	return max(int(t.Time/turn), 3)
}

func (t Test) check() error {
	if !slices.Contains(Ops(), t.Op) {
		return fmt.Errorf("sockets: no operation is called %q", t.Op)
	}
	for _, n := range t.Sizes {
		if n < 1 {
			return fmt.Errorf("sockets: messages of %d bytes", n)
		}
	}
	return nil
}
