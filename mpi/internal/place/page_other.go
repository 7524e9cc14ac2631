//go:build !linux

package place

import "github.com/ibrun/ibrun/internal/job"

// mapAll has nothing to map: there is no ibrun on this system.
func (p *Place) mapAll(*job.Hello) error { return nil }
