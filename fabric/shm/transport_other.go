//go:build !linux

package shm

import (
	"context"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

func probe() error {
	return fmt.Errorf("%w: shared memory between processes needs Linux", fabric.ErrNotSupported)
}

func open(context.Context, *Transport, *fabric.Config) (fabric.Domain, error) { return nil, probe() }
