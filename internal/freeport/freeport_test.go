package freeport

import (
	"net"
	"strconv"
	"testing"
)

// TestTCP: a program can listen at the ports, also while it listens at earlier ones, and they are below the range of the kernel.
func TestTCP(t *testing.T) {
	for range 20 {
		port, err := TCP()
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if port < first || port >= first+count {
			t.Errorf("port %d", port)
		}
	}
}
