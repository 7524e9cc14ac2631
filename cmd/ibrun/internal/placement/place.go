package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/hw"
)

// Machine is one node of a job.
type Machine struct {
	Name    string
	Top     *hw.Topology
	Allowed []int // the PUs that may be used; nil: Top.Allowed
}

// Rank is where one rank runs.
type Rank struct {
	Rank int // in the job
	Node int // index of its machine

	// PUs are where it may run, ascending, and Bound says that this is less than all that the machine allows. A rank that
	// is not bound has all.
	PUs   []int
	Bound bool
	// Memory are the NUMA nodes of PUs, to take memory from. Nil: any, because the rank is not bound or the machine does
	// not tell.
	Memory []int
	// NIC and GPU are the devices near it. Without a name: there is none.
	NIC, GPU hw.Choice
}

// Plan is a job's placement.
type Plan struct {
	Machines []Machine
	Ranks    []Rank   // by number
	Notes    []string // what the user should know, a sentence each
}

// Err* are the kinds of refusals.
var (
	// ErrNoRoom says that there are more ranks than the policy has places for.
	ErrNoRoom = errors.New("no room")
	// ErrNoObject says that a machine has none of the objects that ranks are to be dealt out to or bound to, or
	// that the affinity mask leaves none.
	ErrNoObject = errors.New("nothing there to place ranks on")
)

// Place places so many ranks, from 1, on the machines. Equal input gives an equal plan.
func Place(machines []Machine, ranks int, p Policy) (*Plan, error) {
	names := make([]string, len(machines))
	for i, m := range machines {
		names[i] = m.Name
	}
	nodes, err := p.Nodes(names, ranks)
	if err != nil {
		return nil, err
	}
	plan := &Plan{Machines: machines, Ranks: make([]Rank, ranks)}
	for i, m := range machines {
		var mine []int
		for rank, node := range nodes {
			if node == i {
				mine = append(mine, rank)
			}
		}
		places, notes, err := p.On(m, mine)
		if err != nil {
			return nil, fmt.Errorf("place ranks on %s: %w", m.Name, err)
		}
		for j, rank := range mine {
			places[j].Node = i
			plan.Ranks[rank] = places[j]
		}
		plan.note(append(notes, p.Crossing(places)...))
	}
	return plan, nil
}

// note keeps what is not said yet: equal nodes have equal notes.
func (p *Plan) note(notes []string) {
	for _, n := range notes {
		if !slices.Contains(p.Notes, n) {
			p.Notes = append(p.Notes, n)
		}
	}
}

// Nodes says on which of the named nodes each rank runs. All nodes have equally many slots: without the topology of the
// others every node knows where all ranks are.
func (p *Policy) Nodes(names []string, ranks int) ([]int, error) {
	if ranks < 1 || len(names) == 0 {
		return nil, fmt.Errorf("%w: %d ranks on %d nodes", ErrNoRoom, ranks, len(names))
	}
	if p.File != nil {
		return p.File.nodes(names, ranks)
	}
	if p.Offset > 0 && len(names) > 1 {
		return nil, fmt.Errorf("%w: --offset %d is for a job on one node, this one has %d", ErrNoRoom, p.Offset, len(names))
	}
	if room := p.PerNode * len(names); room > 0 && ranks > room {
		return nil, fmt.Errorf("%w: %d ranks, and %d on each of %d nodes make %d", ErrNoRoom, ranks, p.PerNode, len(names), room)
	}
	nodes := make([]int, ranks)
	each, more := ranks/len(names), ranks%len(names)
	for i := range nodes {
		switch {
		case p.Map == Node:
			nodes[i] = i % len(names)
		case p.PerNode > 0:
			nodes[i] = i / p.PerNode
		case i < more*(each+1): // what does not divide goes to the first nodes
			nodes[i] = i / (each + 1)
		default:
			nodes[i] = (i - more) / each
		}
	}
	return nodes, nil
}

// On places the ranks, ascending, that are on one machine. The notes are what the user should know, but for
// [Policy.Crossing]. Ranks of other machines do not matter.
func (p *Policy) On(m Machine, ranks []int) (places []Rank, notes []string, err error) {
	n, err := newNode(m)
	if err != nil {
		return nil, nil, err
	}
	var d dealing
	if p.File != nil {
		err = n.byFile(p.File, ranks, &d)
	} else {
		err = p.deal(n, len(ranks), &d)
	}
	if err != nil {
		return nil, nil, err
	}
	places = make([]Rank, len(ranks))
	for i, rank := range ranks {
		r := Rank{Rank: rank, PUs: n.allowed}
		if d.pus[i] != nil {
			r.PUs, r.Bound, r.Memory = d.pus[i], true, n.memory(d.pus[i])
		}
		places[i] = r
	}
	n.nearest(places, d.devices)
	return places, append(d.notes, n.kinds(places)...), nil
}

// Shares tells of each of the ranks of one machine whether it has to share PUs with so many others that there is not one
// for each: such ranks must not wait by spinning.
func Shares(ranks []Rank) []bool {
	load := map[int]float64{} // of each PU: the parts of ranks that it carries
	for _, r := range ranks {
		for _, pu := range r.PUs {
			load[pu] += 1 / float64(len(r.PUs))
		}
	}
	const rounding = 1e-6
	shares := make([]bool, len(ranks))
	for i, r := range ranks {
		shares[i] = slices.ContainsFunc(r.PUs, func(pu int) bool { return load[pu] > 1+rounding })
	}
	return shares
}

// Slots is how many ranks a machine takes when nobody says how many: as many as the policy fills it with, one for
// each share of CPUs cores.
func (p *Policy) Slots(m Machine) (int, error) {
	n, err := newNode(m)
	if err != nil {
		return 0, err
	}
	if p.File != nil {
		return len(p.File.Lines), nil
	}
	switch {
	case p.PerNode > 0:
		return p.PerNode, nil
	case p.Per > 0:
		objects, err := n.objects(p)
		return p.Per * len(objects), err
	}
	if err := p.skip(n); err != nil {
		return 0, err
	}
	units := len(n.units(n.cores, p.threads()))
	if units < p.CPUs {
		return 0, fmt.Errorf("%w: %d cores for a rank, and there are %d", ErrNoRoom, p.CPUs, units)
	}
	return units / max(p.CPUs, 1), nil
}

// skip takes the slots that are to stay free from a node.
func (p *Policy) skip(n *node) error {
	switch {
	case p.Offset == 0:
		return nil
	case p.Map != Share && p.Map != Core && p.Map != HWThread && p.Map != Node:
		return fmt.Errorf("%w: --offset counts slots, and does not go with --map-by %s", ErrNoRoom, p.Map)
	}
	units := n.units(n.cores, p.threads())
	free := p.Offset * max(p.CPUs, 1)
	if free >= len(units) {
		return fmt.Errorf("%w: the node has %d cores, and %d are to be left free", ErrNoRoom, len(units), free)
	}
	n.cores = units[free:]
	return nil
}

// threads says that a rank's share is counted in hardware threads.
func (p *Policy) threads() bool { return p.Map == HWThread || p.Bind == HWThread }

// dealing is what each rank of a machine gets, in their order.
type dealing struct {
	pus     [][]int      // nil: it is not bound
	devices []*hw.Choice // those that ranks were mapped to; nil when they were not
	notes   []string
}

// deal deals n ranks out to the objects of Map, and the cores of each object to its ranks.
func (p *Policy) deal(n *node, ranks int, d *dealing) error {
	if err := p.skip(n); err != nil {
		return err
	}
	objects, err := n.objects(p)
	if err != nil {
		return err
	}
	if p.Per > 0 && ranks > p.Per*len(objects) {
		return fmt.Errorf("%w: %d ranks, and %d for each %s of %d make %d", ErrNoRoom, ranks, p.Per, p.Map, len(objects),
			p.Per*len(objects))
	}
	if (p.Map == Core || p.Map == HWThread) && ranks > len(objects) { // cores have to be shared: all of them by all ranks
		objects = []object{n.whole()}
	}
	at := make([]int, ranks) // the object of each rank
	for i := range at {
		if at[i] = i % len(objects); p.Per > 0 {
			at[i] = i / p.Per
		}
	}
	if p.Map == Device {
		d.devices = make([]*hw.Choice, ranks)
		for i, o := range at {
			d.devices[i] = objects[o].device
		}
	}
	d.pus = make([][]int, ranks)
	for _, place := range places(objects) {
		var mine []int
		for i, o := range at {
			if objects[o].place == place {
				mine = append(mine, i)
			}
		}
		first := slices.IndexFunc(objects, func(o object) bool { return o.place == place })
		if err := p.divide(n, objects[first], mine, d); err != nil {
			return err
		}
	}
	if p.Bind == Share && ranks == 1 && p.CPUs == 0 && p.Offset == 0 && (p.Map == Share || p.Map == Node) {
		d.pus[0] = nil // it has everything
	}
	return nil
}

// divide divides an object's cores among those of the ranks that are mapped to it.
func (p *Policy) divide(n *node, o object, mine []int, d *dealing) error {
	if len(mine) == 0 {
		return nil
	}
	units, each, bind := n.units(o.cores, p.threads()), p.CPUs, *p
	switch {
	case len(mine)*p.CPUs > len(units):
		return fmt.Errorf("%w: %d ranks with %d cores each need more than the %d of %s", ErrNoRoom, len(mine), p.CPUs,
			len(units), o.name)
	case p.CPUs == 0 && len(mine) > len(units): // but perhaps not more than hardware threads
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
		return p.crowd(n, o, mine, units, d)
	}
	for i, rank := range mine {
		first := i * each
		if p.CPUs == 0 {
			first = i * len(units) / len(mine) // what does not divide is left over between the ranks, not all at the end
		}
		pus, err := n.bind(&bind, o, units[first:first+each])
		if err != nil {
			return err
		}
		d.pus[rank] = pus
	}
	return nil
}

// crowd is for more ranks than hardware threads. They are bound only to what is meant to be shared, or to what --offset leaves.
func (p *Policy) crowd(n *node, o object, mine []int, units [][]int, d *dealing) error {
	if p.Strict {
		return fmt.Errorf("%w: %d ranks, and %s has %d cores", ErrNoRoom, len(mine), o.name, len(units))
	}
	binds, where := ": none is bound to a core", " of "+o.name
	if o.name == wholeNode {
		binds, where = ", so none is bound to a core", ""
	}
	for i, rank := range mine {
		switch p.Bind {
		case None:
		case HWThread, Core, Share:
			slots := p.Map == Share || p.Map == Node || p.Map == Core || p.Map == HWThread
			switch {
			case p.Offset > 0:
				d.pus[rank] = sorted(o.cores)
				binds = ": they share what is not left free"
			case p.Bind == Share && !slots:
				d.pus[rank] = sorted(o.cores)
				binds = ": they share it"
			}
		default:
			pus, err := n.bind(p, o, units[i%len(units):i%len(units)+1])
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

// bind returns the PUs that a rank with these units of the object is bound to, nil for none.
func (n *node) bind(p *Policy, o object, units [][]int) ([]int, error) {
	switch p.Bind {
	case None:
		return nil, nil
	case Share:
		return sorted(units), nil
	case Core, HWThread:
		if p.CPUs == 0 {
			units = units[:1]
		}
		if p.Bind == HWThread {
			return sorted(units), nil
		}
	case Device:
		if o.device == nil {
			return nil, fmt.Errorf("%w: --bind-to device goes with --map-by device", ErrNoObject)
		}
		return sorted(o.cores), nil
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

// sorted is all PUs of some units, ascending.
func sorted(units [][]int) []int {
	return slices.Sorted(slices.Values(slices.Concat(units...)))
}

// places are the distinct places of objects, in order.
func places(objects []object) []int {
	var all []int
	for _, o := range objects {
		if !slices.Contains(all, o.place) {
			all = append(all, o.place)
		}
	}
	slices.SortFunc(all, cmp.Compare)
	return all
}
