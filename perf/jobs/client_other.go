//go:build !linux

package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/internal/jobsocket"
)

// errSystem is returned on systems where ibrun cannot start jobs.
var errSystem = fmt.Errorf("jobs: starting and inspecting jobs needs Linux: %w", errors.ErrUnsupported)

func list(context.Context) ([]Job, error) { return nil, errSystem }

func (j Job) query(context.Context, *jobsocket.Request) (*response, error) { return nil, errSystem }
