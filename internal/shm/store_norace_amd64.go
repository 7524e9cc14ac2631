//go:build !race

package shm

// StoreRelease64 stores v in *p such that whoever reads v there with an atomic load also sees all stores made before.
// Unlike sync/atomic's store it orders nothing that comes after it.
//
//go:noescape
func StoreRelease64(p *uint64, v uint64)
