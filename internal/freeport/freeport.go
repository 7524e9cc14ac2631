// Package freeport finds TCP ports for programs that cannot be told to take any port.
//
// The kernel takes ports for outgoing connections, and for listeners at port 0, from a range (ip_local_port_range, which begins
// at 32768 by default). A port of that range that is free now may be in use when the program binds it. The ports here are below.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports from which TCP chooses, and how often it tries.
const (
	first    = 10000
	count    = 20000
	attempts = 100
)

// TCP returns a TCP port that is free on all addresses, chosen at random: two callers get the same one only by chance.
func TCP() (int, error) {
	var err error
	for range attempts {
		port := first + rand.IntN(count)
		var l net.Listener
		if l, err = net.Listen("tcp", ":"+strconv.Itoa(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}
