package coordinator

import (
	"fmt"
	"net"
	"testing"
)

// A free port can be listened at, over IPv4 too.
func TestFreePort(t *testing.T) {
	port, err := FreePort()
	if err != nil || port == 0 {
		t.Fatal(port, err)
	}
	for _, host := range []string{"", "127.0.0.1"} {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, port))
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}
