//go:build !linux

package bootstrap

import "github.com/ibrun/ibrun/internal/ranklink"

// mapAll has nothing to map: there is no ibrun on this system.
func (p *Place) mapAll(*ranklink.Hello) error { return nil }
