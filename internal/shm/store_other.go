//go:build race || !amd64

package shm

import "sync/atomic"

// StoreRelease64 stores v in *p. A reader that sees v in *p by an atomic load also sees all stores made before.
func StoreRelease64(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
