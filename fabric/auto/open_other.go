//go:build !linux

package auto

import (
	"context"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

func (n Node) open(context.Context, *fabric.Config) (fabric.Domain, error) {
	return nil, fmt.Errorf("%w: several processes need Linux", fabric.ErrNotSupported)
}
