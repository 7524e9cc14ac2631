//go:build !linux

package place

import "github.com/ibrun/ibrun/internal/job"

// mapPage has nothing to map: there is no ibrun on this system.
func mapPage(*job.Hello) ([]byte, error) { return nil, nil }
