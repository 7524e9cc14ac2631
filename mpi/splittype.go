package mpi

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/perf"
)

// SplitType is by what [Comm.SplitType] divides a communicator; Undefined is another. MPI-5.0 §7.4.2.
type SplitType int32

// The ways to divide.
const (
	// TypeShared puts together the ranks of a node. MPI-5.0 §7.4.2.
	TypeShared SplitType = 221
	// TypeHWUnguided divides by the largest type of hardware resource that divides at all. MPI-5.0 §7.4.2.
	TypeHWUnguided SplitType = 222
	// TypeHWGuided divides by the type of hardware resource that the info names. MPI-5.0 §7.4.2.
	TypeHWGuided SplitType = 223
	// TypeResourceGuided divides by the type of hardware resource or the process set that the info names. MPI-5.0 §7.4.2.
	TypeResourceGuided SplitType = 224
)

// Keys of the info of SplitType, and the value that stands for TypeShared.
const (
	keyResource  = "mpi_hw_resource_type"
	keyPset      = "mpi_pset_name"
	sharedMemory = "mpi_shared_memory"
)

// SplitType makes communicators of ranks that have something in common, each ordered by key and then by rank here. It is
// collective. The result is nil for ranks that do not have it, or give Undefined; no rank is in two communicators.
//
// With TypeHWGuided and TypeResourceGuided the key mpi_hw_resource_type of info says what: any key that
// [Process.GetHWResourceInfo] returns, as it is spelled there, or mpi_shared_memory, which stands for TypeShared. Together
// come ranks that are restricted to the same instance at this moment. The others get nil, and so do those without the key,
// or with a value that is not known. TypeResourceGuided also takes mpi_pset_name, the name of a process set; with both
// keys, ranks come together that have both in common. Ranks may give different values: each joins those with its own.
//
// The info may also have hints for the new communicator, as [Comm.SetInfo] takes them.
//
// TypeHWUnguided takes the largest type of hwloc by which every communicator has fewer ranks than this one, and sets
// mpi_hw_resource_type in info to it. All get nil if there is no such type. MPI-5.0 §7.4.2.
func (c *Comm) SplitType(by SplitType, key int, info *Info) (*Comm, error) {
	const call = perf.SplitType
	op := call.String()
	if err := c.usable(op); err != nil {
		return nil, err
	}
	defer c.p.called(call)()
	// A rank that fails takes part as if it gave Undefined, so the others do not hang.
	mine, failed := c.claim(op, by, info)
	sides, keys, open, err := c.claims(call, &mine, key)
	kind := ""
	if err == nil && open {
		kind, err = c.choose(call, sides, &mine)
	}
	var d *Comm
	if err == nil {
		d, err = c.divide(call, sides, keys)
	}
	if failed != nil {
		return nil, c.also(op, failed, err)
	}
	if d == nil {
		return nil, err
	}
	if err := d.setInfo(call, info); err != nil {
		return nil, c.also(op, err, d.free(call))
	}
	if mine.byType != nil && info != nil {
		err = info.Set(keyResource, kind)
	}
	return d, c.below(op, err)
}

// claim is what a rank brings to a split: a side, or if it leaves open what to divide by, one for each type of resource.
type claim struct {
	side   side
	byType []side // in the order of hw.ResourceTypes; nil if it is not left open
}

// claim finds out what this rank brings.
func (c *Comm) claim(op string, by SplitType, info *Info) (claim, error) {
	resource, named := info.Get(keyResource)
	pset, grouped := info.Get(keyPset)
	switch by {
	case TypeHWUnguided:
		byType, err := c.p.typeSides()
		return claim{byType: byType}, c.below(op, err)
	case TypeShared:
		resource, named, grouped = sharedMemory, true, false
	case TypeHWGuided:
		grouped = false
	case TypeResourceGuided:
	case Undefined:
		named, grouped = false, false
	default:
		return claim{}, c.err(op, ErrArg, fmt.Errorf("there is no split type %d", by))
	}
	if !named && !grouped {
		return claim{}, nil
	}
	var sides [2]side
	var err [2]error
	if named {
		sides[0], err[0] = c.p.resourceSide(resource)
	}
	if grouped {
		sides[1], err[1] = c.p.psetSide(pset)
	}
	if named && sides[0] == (side{}) || grouped && sides[1] == (side{}) {
		return claim{}, c.below(op, errors.Join(err[:]...))
	}
	return claim{side: sideOf(sides)}, nil
}

// node is the number of this process's node.
func (p *Process) node() (int, error) {
	nodes, err := p.place.Nodes()
	if err != nil {
		return 0, fmt.Errorf("ask the launcher for the nodes of the processes: %w", err)
	}
	return nodes[p.place.Rank], nil
}

// side is where a process on this node goes in a split by what it has.
func (h *holding) side(node int) side {
	switch {
	case !h.only:
		return side{}
	case h.across:
		return sideOf(h.key, h.instance)
	}
	return sideOf(h.key, h.instance, node)
}

// resourceSide is the side of this process in a split by a type of hardware resource.
func (p *Process) resourceSide(kind string) (side, error) {
	node, err := p.node()
	if err != nil {
		return side{}, err
	}
	if kind == sharedMemory {
		return sideOf(kind, node), nil
	}
	held, err := p.hardware()
	if err != nil {
		return side{}, err
	}
	for _, h := range held {
		if h.key == kind {
			return h.side(node), nil
		}
	}
	return side{}, nil
}

// typeSides are the sides of this process in splits by each type of resource.
func (p *Process) typeSides() ([]side, error) {
	types := hw.ResourceTypes()
	sides := make([]side, len(types)) // also where this fails: the rank takes part
	node, err := p.node()
	if err != nil {
		return sides, err
	}
	held, err := p.hardware()
	if err != nil {
		return sides, err
	}
	for _, h := range held {
		for i, kind := range types {
			if h.key == fromHwloc+kind {
				sides[i] = h.side(node)
			}
		}
	}
	return sides, nil
}

// psetSide is the side of this process in a split by a process set: none if it is in no set of that name.
func (p *Process) psetSide(name string) (side, error) {
	sets, err := p.psets()
	if err != nil {
		return side{}, err
	}
	for _, s := range sets.mine {
		if s.name == name {
			return sideOf(name, slices.Min(s.peers)), nil // another set of that name has none of these
		}
	}
	return side{}, nil
}

// claims tells sides and keys of all ranks, and whether any leaves it open what to divide by.
func (c *Comm) claims(call perf.Op, mine *claim, key int) (sides []side, keys []int, open bool, err error) {
	const words = len(side{}) + 2
	record := append(mine.side[:], uint64(key), 0)
	if mine.byType != nil {
		record[words-1] = 1
	}
	all := make([]uint64, words*len(c.peers))
	if err := c.allgather(call.Within(), bytesOf(all), bytesOf(record), sizeOf[uint64]()); err != nil {
		return nil, nil, false, err
	}
	for r := range slices.Chunk(all, words) {
		sides = append(sides, side(r[:words-2]))
		keys = append(keys, int(r[words-2]))
		open = open || r[words-1] != 0
	}
	return sides, keys, open, nil
}

// choose finds the largest type that divides, and puts the sides of the ranks that left it open in their places.
func (c *Comm) choose(call perf.Op, sides []side, mine *claim) (kind string, err error) {
	types := hw.ResourceTypes()
	record := make([]uint64, len(types)*len(side{}))
	for i, s := range mine.byType {
		copy(record[i*len(s):], s[:])
	}
	all := make([]uint64, len(record)*len(sides))
	if err := c.allgather(call.Within(), bytesOf(all), bytesOf(record), sizeOf[uint64]()); err != nil {
		return "", err
	}
	for i, kind := range types {
		ranks, most := map[side]int{}, 0
		there := func(r int) side { return side(all[(r*len(types)+i)*len(side{}):]) }
		for r := range sides {
			if s := there(r); s != (side{}) {
				ranks[s]++
				most = max(most, ranks[s])
			}
		}
		if most == 0 || most == len(sides) {
			continue
		}
		for r := range sides {
			if s := there(r); s != (side{}) {
				sides[r] = s
			}
		}
		return fromHwloc + kind, nil
	}
	return "", nil
}
