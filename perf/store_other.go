//go:build race || !amd64

package perf

import "sync/atomic"

// Each word of a page has only one writer, so adding needs no atomic addition. The stores are atomic so that readers see them in
// order on processors that reorder stores, and for the race detector.

func add(p *uint64, n uint64) { atomic.StoreUint64(p, atomic.LoadUint64(p)+n) }

func set(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

func get(p *uint64) uint64 { return atomic.LoadUint64(p) }
