package coordinator

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// lossReason describes why the connection to the ibrun of another node has ended before the job has.
func lossReason(node int, name string, at net.Addr, err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		// ibrun announces the end of the job. So its kernel has closed the connection.
		return fmt.Sprintf("the ibrun of node %d (%s) at %v was killed or has crashed", node, name, at)
	}
	return fmt.Sprintf("node %d (%s) at %v is lost: %v", node, name, at, err)
}
