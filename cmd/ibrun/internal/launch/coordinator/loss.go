package coordinator

import (
	"errors"
	"fmt"
	"net"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
)

// lossReason describes why the connection to the ibrun of another node has ended before the job has.
func lossReason(node int, name string, at net.Addr, err error) string {
	if errors.Is(err, control.ErrDied) {
		return fmt.Sprintf("the ibrun of node %d (%s) at %v was killed or has crashed", node, name, at)
	}
	return fmt.Sprintf("node %d (%s) at %v is lost: %v", node, name, at, err)
}
