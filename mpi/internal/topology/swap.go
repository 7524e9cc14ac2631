package topology

// maxPasses bounds the passes over the ranks of a domain. Most gains are made in the first ones.
const maxPasses = 16

// swap exchanges pairs of ranks between the parts of a domain, as long as that lowers the weight between parts.
func (m *mapper) swap(d *domain, ranks []int32) {
	for range maxPasses {
		changed := false
		for i := range ranks {
			for m.swapBest(d, ranks, i) {
				changed = true
			}
		}
		if !changed || m.work <= 0 {
			return
		}
	}
}

// swapBest exchanges the rank at position i with the one that gains most, and reports whether there is one. It looks only at
// parts to which the rank has stronger links than to its own: of every pair with a gain, one of the two has such links.
func (m *mapper) swapBest(d *domain, ranks []int32, i int) bool {
	r := ranks[i]
	own := m.part[r]
	to, _ := m.links.of(r)
	m.weigh(r)
	best, gain := -1, int64(0)
	for _, s := range to {
		other := m.part[s]
		if other < 0 || other == own || m.toPart[other] <= m.toPart[own] || m.work <= 0 {
			continue
		}
		have := m.toPart[other] - m.toPart[own]
		m.toPart[other] = 0 // each part is looked at once
		p := d.parts[other]
		for j := p.lo - d.lo; j < p.hi-d.lo; j++ {
			if g := have + m.moveGain(ranks[j], own, other, r); g > gain {
				best, gain = j, g
			}
		}
	}
	m.unweigh(r)
	if best < 0 {
		return false
	}
	m.part[r], m.part[ranks[best]] = m.part[ranks[best]], own
	ranks[i], ranks[best] = ranks[best], r
	return true
}

// weigh sets toPart to the weights between a rank and the parts that it has links to.
func (m *mapper) weigh(r int32) {
	to, weights := m.links.of(r)
	for i, s := range to {
		if p := m.part[s]; p >= 0 {
			m.toPart[p] += weights[i]
		}
	}
}

// unweigh sets toPart to zero again.
func (m *mapper) unweigh(r int32) {
	to, _ := m.links.of(r)
	m.toPart[m.part[r]] = 0
	for _, s := range to {
		if p := m.part[s]; p >= 0 {
			m.toPart[p] = 0
		}
	}
}

// moveGain returns by how much the weight between parts falls if s moves from its part to another one, from which r comes in
// exchange: a link between the two stays between parts, so it is counted twice against the exchange.
func (m *mapper) moveGain(s, to, from, r int32) (gain int64) {
	linked, weights := m.links.of(s)
	m.work -= len(linked) + 1
	for i, x := range linked {
		switch {
		case x == r:
			gain -= weights[i] // r is in the part that s moves to, and leaves it: counted in the sum of r as well
		case m.part[x] == to:
			gain += weights[i]
		case m.part[x] == from:
			gain -= weights[i]
		}
	}
	return gain
}
