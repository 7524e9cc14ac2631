package freeport

import (
	"net"
	"strconv"
	"testing"
)

// TestTCP: ports can be listened at, are below the range of the kernel, and are not always the same.
func TestTCP(t *testing.T) {
	ports := map[int]bool{}
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
		if port < first || port >= first+count || ports[port] {
			t.Errorf("port %d, after %v", port, ports)
		}
		ports[port] = true
	}
}
