//go:build !linux

package tcp

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

func probe() error {
	return fmt.Errorf("%w: TCP between processes needs Linux, for epoll", fabric.ErrNotSupported)
}

func open(*Transport, *fabric.Config, []iface) (fabric.Domain, error) { return nil, probe() }
