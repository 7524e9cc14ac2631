package core

// Elsewhere simulates that this process has created and freed communicators, possibly with others, n times under each
// id.
func (p *Process) Elsewhere(n uint32) {
	p.contextIDs.mu.Lock()
	for i := range p.contextIDs.generations {
		p.contextIDs.generations[i] += n
	}
	p.contextIDs.mu.Unlock()
}
