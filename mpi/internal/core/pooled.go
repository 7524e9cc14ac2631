package core

import "sync"

// memoryPool is memory for packed data, which is reused. The zero pool is empty. Any goroutine may
// use it.
type memoryPool struct{ pool sync.Pool }

// pooledMemory is memory from a pool.
type pooledMemory struct {
	b   []byte // as many bytes as were asked for
	all []byte
	of  *memoryPool
}

// take returns n bytes with any contents, until release.
func (p *memoryPool) take(n int) *pooledMemory {
	m, ok := p.pool.Get().(*pooledMemory)
	if !ok {
		m = &pooledMemory{of: p}
	}
	if len(m.all) < n {
		m.all = make([]byte, n)
	}
	m.b = m.all[:n:n]
	return m
}

// release returns the memory to its pool.
func (m *pooledMemory) release() {
	m.b = nil
	m.of.pool.Put(m)
}
