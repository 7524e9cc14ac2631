//go:build race || !amd64

package perf

import "sync/atomic"

// The words of a page have one writer each, so adding needs no atomic addition. The stores are atomic so that they are seen in
// order where the processor would not see to it, and by the race detector.

func add(p *uint64, n uint64) { atomic.StoreUint64(p, atomic.LoadUint64(p)+n) }

func set(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

func get(p *uint64) uint64 { return atomic.LoadUint64(p) }
