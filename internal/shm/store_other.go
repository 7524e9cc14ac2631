//go:build race || !amd64

package shm

import "sync/atomic"

// StoreRelease64 stores v in *p such that whoever reads v there with an atomic load also sees all stores made before.
func StoreRelease64(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
