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

// ContextIDs are the context ids of a process that takes part in agreements.
type ContextIDs struct{ ids contextIDs }

// NewContextIDs returns ids that are all unused.
func NewContextIDs() *ContextIDs {
	s := new(ContextIDs)
	s.ids.init()
	return s
}

// Begin, Await, Offer, Withdraw and End are what allocContextID does in an agreement with a priority.
func (s *ContextIDs) Begin(priority uint64)      { s.ids.addWaiter(priority, 1) }
func (s *ContextIDs) Await(priority uint64)      { s.ids.awaitTurn(priority) }
func (s *ContextIDs) Offer(priority uint64) bool { return s.ids.offer(priority, nil) }
func (s *ContextIDs) Withdraw()                  { s.ids.withdrawOffer() }
func (s *ContextIDs) End(priority uint64)        { s.ids.addWaiter(priority, -1) }
