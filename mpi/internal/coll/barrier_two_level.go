package coll

// barrierTwoLevel: the ranks of each node wait for each other, then the leaders of the nodes do.
//
// Cost: that of a Barrier between nodes, and within a node twice that of a cache line from one core to another, or of messages
// along a binomial tree.
func barrierTwoLevel(p Peer, l *Levels) error {
	leader := l.lead(0)
	b := p.Scratch(l.within.size)
	own := b[l.within.rank : l.within.rank+1]
	if l.leads() { // in place
		own = b[:1]
	}
	if err := l.gather(b, own, leader); err != nil {
		return err
	}
	if l.leads() {
		if err := barrierDissemination(l.leaders()); err != nil {
			return err
		}
	}
	return l.bcast(b[:1], leader)
}
