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

// Turns returns functions that begin, await and end an agreement with a priority, as allocContextID does.
func Turns() (begin, await, end func(priority uint64)) {
	s := new(contextIDs)
	s.init()
	return func(p uint64) { s.addWaiter(p, 1) }, s.awaitTurn, func(p uint64) { s.addWaiter(p, -1) }
}
