//go:build !race

package shm

// StoreRelease64 stores v in *p. A reader that sees v in *p by an atomic load also sees all stores made before. Unlike the store
// of sync/atomic it does not order anything that comes after it.
//
//go:noescape
func StoreRelease64(p *uint64, v uint64)
