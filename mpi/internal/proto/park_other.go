//go:build !linux

package proto

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

func newPollParker() (parker, error) {
	return nil, fmt.Errorf("%w: sleeping on a transport's descriptor needs Linux", fabric.ErrNotSupported)
}

func yieldProcessor() {}
