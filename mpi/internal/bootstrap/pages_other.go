//go:build !linux

package bootstrap

import "github.com/ibrun/ibrun/internal/ranklink"

// mapPages has nothing to map: there is no ibrun on this system.
func (p *Process) mapPages(*ranklink.RankInfo) error { return nil }
