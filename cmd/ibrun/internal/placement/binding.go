package placement

import (
	"fmt"
	"slices"
)

// BindRanks places the ranks of one machine, given in ascending order. The result does not depend on the ranks of other
// machines. The notes are warnings for the user, except those of [Policy.CrossSocketWarnings].
func (p *Policy) BindRanks(m Machine, ranks []int) (placed []Rank, notes []string, err error) {
	n, err := newNode(m)
	if err != nil {
		return nil, nil, err
	}
	var d assignment
	if p.File != nil {
		err = n.assignFromFile(p.File, ranks, &d)
	} else {
		err = p.assign(n, len(ranks), &d)
	}
	if err != nil {
		return nil, nil, err
	}
	placed = make([]Rank, len(ranks))
	for i, rank := range ranks {
		r := Rank{Rank: rank, PUs: n.allowed}
		if d.pus[i] != nil {
			r.PUs, r.Bound, r.Memory = d.pus[i], true, n.memory(d.pus[i])
		}
		placed[i] = r
	}
	n.assignDevices(placed, d.devices)
	return placed, append(d.notes, n.coreKindWarnings(placed)...), nil
}

// Oversubscribed reports for each rank of one machine whether its PUs have more ranks than there are PUs. Such ranks must not
// wait by spinning.
func Oversubscribed(ranks []Rank) []bool {
	load := map[int]float64{} // PU: its load in ranks; a rank loads all its PUs equally
	for _, r := range ranks {
		for _, pu := range r.PUs {
			load[pu] += 1 / float64(len(r.PUs))
		}
	}
	const rounding = 1e-6
	over := make([]bool, len(ranks))
	for i, r := range ranks {
		over[i] = slices.ContainsFunc(r.PUs, func(pu int) bool { return load[pu] > 1+rounding })
	}
	return over
}

// assignCores divides the cores of an object equally among the ranks that are mapped to it.
func (p *Policy) assignCores(n *node, o object, mine []int, d *assignment) error {
	if len(mine) == 0 {
		return nil
	}
	units, each, bind := n.units(o.cores, p.countsThreads()), p.CPUs, *p
	switch {
	case len(mine)*p.CPUs > len(units):
		return fmt.Errorf("%w: %d ranks need %d cores each, but %s has only %d", ErrNoSlots, len(mine), p.CPUs,
			o.name, len(units))
	case p.CPUs == 0 && len(mine) > len(units): // divide hardware threads instead of cores
		cores := len(units)
		units = n.units(units, true)
		if p.Bind == Core && len(mine) <= len(units) {
			bind.Bind = HWThread
			d.notes = append(d.notes, fmt.Sprintf("more ranks than cores (%d on %d of %s): each is bound to a hardware thread",
				len(mine), cores, o.name))
		}
	}
	if p.CPUs == 0 {
		each = len(units) / len(mine)
	}
	if each == 0 {
		return p.oversubscribe(n, o, mine, units, d)
	}
	for i, rank := range mine {
		first := i * each
		if p.CPUs == 0 {
			first = i * len(units) / len(mine) // spread the unused remainder between the ranks
		}
		pus, err := n.boundPUs(&bind, o, units[first:first+each])
		if err != nil {
			return err
		}
		d.pus[rank] = pus
	}
	return nil
}

// oversubscribe places more ranks than hardware threads. It binds them only to objects that several ranks may share, or to the
// cores of the job's slots.
func (p *Policy) oversubscribe(n *node, o object, mine []int, units [][]int, d *assignment) error {
	if p.Strict {
		return fmt.Errorf("%w: %d ranks requested, but %s has only %d cores", ErrNoSlots, len(mine), o.name, len(units))
	}
	binds, where := ": none is bound to a core", " of "+o.name
	if o.name == wholeNodeName {
		binds, where = ", so none is bound to a core", ""
	}
	for i, rank := range mine {
		switch p.Bind {
		case None:
		case HWThread, Core, Share:
			slots := p.Map == Share || p.Map == Node || p.Map == Core || p.Map == HWThread
			switch {
			case p.Packed:
				d.pus[rank] = sortedPUs(o.cores)
				binds = ": they share the cores of the job's slots"
			case p.Bind == Share && !slots:
				d.pus[rank] = sortedPUs(o.cores)
				binds = ": they share it"
			}
		default:
			pus, err := n.boundPUs(p, o, units[i%len(units):i%len(units)+1])
			if err != nil {
				return err
			}
			d.pus[rank] = pus
			binds = ": they share them"
		}
	}
	if p.Bind != None {
		d.notes = append(d.notes, fmt.Sprintf("more ranks than cores (%d on %d%s)%s", len(mine), len(units), where, binds))
	}
	return nil
}

// boundPUs returns the PUs to bind a rank to that has these units of the object. Nil means no binding.
func (n *node) boundPUs(p *Policy, o object, units [][]int) ([]int, error) {
	switch p.Bind {
	case None:
		return nil, nil
	case Share:
		return sortedPUs(units), nil
	case Core, HWThread:
		if p.CPUs == 0 {
			units = units[:1]
		}
		if p.Bind == HWThread {
			return sortedPUs(units), nil
		}
	case Device:
		if o.device == nil {
			return nil, fmt.Errorf("%w: --bind-to device requires --map-by device", ErrNoObject)
		}
		return sortedPUs(o.cores), nil
	}
	key, err := n.keys(p.Bind)
	if err != nil {
		return nil, err
	}
	inside := map[int]bool{}
	for _, unit := range units {
		for _, pu := range unit {
			inside[key[pu]] = true
		}
	}
	var pus []int
	for _, pu := range n.allowed {
		if inside[key[pu]] {
			pus = append(pus, pu)
		}
	}
	return pus, nil
}

// sortedPUs returns all PUs of the units, ascending.
func sortedPUs(units [][]int) []int {
	return slices.Sorted(slices.Values(slices.Concat(units...)))
}
