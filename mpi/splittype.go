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
	keyResource = "mpi_hw_resource_type"
	keyPset     = "mpi_pset_name"
	valueShared = "mpi_shared_memory"
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
	if err := c.checkUsable(op); err != nil {
		return nil, err
	}
	defer c.proc.recordCall(call)()
	// A rank that fails takes part as if it gave Undefined, so the others do not hang.
	mine, failed := c.newSplitRequest(op, by, info)
	sides, keys, open, err := c.exchangeSplitRequests(call, &mine, key)
	kind := ""
	if err == nil && open {
		kind, err = c.chooseResourceType(call, sides, &mine)
	}
	var d *Comm
	if err == nil {
		d, err = c.splitByColor(call, sides, keys)
	}
	if failed != nil {
		return nil, c.joinError(op, failed, err)
	}
	if d == nil {
		return nil, err
	}
	if err := d.setInfo(call, info); err != nil {
		return nil, c.joinError(op, err, d.free(call))
	}
	if mine.byType != nil && info != nil {
		err = info.Set(keyResource, kind)
	}
	return d, c.wrapError(op, err)
}

// splitRequest is what a rank brings to a split: a side, or if it leaves open what to divide by, one for each type of resource.
type splitRequest struct {
	color  splitColor
	byType []splitColor // in the order of hw.ResourceTypes; nil if it is not left open
}

// newSplitRequest finds out what this rank brings.
func (c *Comm) newSplitRequest(op string, by SplitType, info *Info) (splitRequest, error) {
	resource, named := info.Get(keyResource)
	pset, grouped := info.Get(keyPset)
	switch by {
	case TypeHWUnguided:
		byType, err := c.proc.typeColors()
		return splitRequest{byType: byType}, c.wrapError(op, err)
	case TypeShared:
		resource, named, grouped = valueShared, true, false
	case TypeHWGuided:
		grouped = false
	case TypeResourceGuided:
	case Undefined:
		named, grouped = false, false
	default:
		return splitRequest{}, c.newError(op, ErrArg, fmt.Errorf("there is no split type %d", by))
	}
	if !named && !grouped {
		return splitRequest{}, nil
	}
	var sides [2]splitColor
	var err [2]error
	if named {
		sides[0], err[0] = c.proc.resourceColor(resource)
	}
	if grouped {
		sides[1], err[1] = c.proc.psetColor(pset)
	}
	if named && sides[0] == (splitColor{}) || grouped && sides[1] == (splitColor{}) {
		return splitRequest{}, c.wrapError(op, errors.Join(err[:]...))
	}
	return splitRequest{color: newSplitColor(sides)}, nil
}

// nodeNumber is the number of this process's node.
func (p *Process) nodeNumber() (int, error) {
	nodes, err := p.boot.Nodes()
	if err != nil {
		return 0, fmt.Errorf("ask the launcher for the nodes of the processes: %w", err)
	}
	return nodes[p.boot.Rank], nil
}

// color is where a process on this node goes in a split by what it has.
func (h *hwResource) color(node int) splitColor {
	switch {
	case !h.restricted:
		return splitColor{}
	case h.acrossNodes:
		return newSplitColor(h.key, h.instance)
	}
	return newSplitColor(h.key, h.instance, node)
}

// resourceColor is the side of this process in a split by a type of hardware resource.
func (p *Process) resourceColor(kind string) (splitColor, error) {
	node, err := p.nodeNumber()
	if err != nil {
		return splitColor{}, err
	}
	if kind == valueShared {
		return newSplitColor(kind, node), nil
	}
	held, err := p.hwResources()
	if err != nil {
		return splitColor{}, err
	}
	for _, h := range held {
		if h.key == kind {
			return h.color(node), nil
		}
	}
	return splitColor{}, nil
}

// typeColors are the sides of this process in splits by each type of resource.
func (p *Process) typeColors() ([]splitColor, error) {
	types := hw.ResourceTypes()
	sides := make([]splitColor, len(types)) // also where this fails: the rank takes part
	node, err := p.nodeNumber()
	if err != nil {
		return sides, err
	}
	held, err := p.hwResources()
	if err != nil {
		return sides, err
	}
	for _, h := range held {
		for i, kind := range types {
			if h.key == hwlocPrefix+kind {
				sides[i] = h.color(node)
			}
		}
	}
	return sides, nil
}

// psetColor is the side of this process in a split by a process set: none if it is in no set of that name.
func (p *Process) psetColor(name string) (splitColor, error) {
	sets, err := p.psets()
	if err != nil {
		return splitColor{}, err
	}
	for _, s := range sets.mine {
		if s.name == name {
			return newSplitColor(name, slices.Min(s.peers)), nil // another set of that name has none of these
		}
	}
	return splitColor{}, nil
}

// exchangeSplitRequests tells sides and keys of all ranks, and whether any leaves it open what to divide by.
func (c *Comm) exchangeSplitRequests(call perf.Op, mine *splitRequest, key int) (
	colors []splitColor, keys []int, unguided bool, err error,
) {
	const words = len(splitColor{}) + 2
	record := append(mine.color[:], uint64(key), 0)
	if mine.byType != nil {
		record[words-1] = 1
	}
	all := make([]uint64, words*len(c.peers))
	if err := c.allgather(call.Within(), bytesOf(all), bytesOf(record), sizeOf[uint64]()); err != nil {
		return nil, nil, false, err
	}
	for r := range slices.Chunk(all, words) {
		colors = append(colors, splitColor(r[:words-2]))
		keys = append(keys, int(r[words-2]))
		unguided = unguided || r[words-1] != 0
	}
	return colors, keys, unguided, nil
}

// chooseResourceType finds the largest type that divides, and puts the sides of the ranks that left it open in their places.
func (c *Comm) chooseResourceType(call perf.Op, sides []splitColor, mine *splitRequest) (kind string, err error) {
	types := hw.ResourceTypes()
	record := make([]uint64, len(types)*len(splitColor{}))
	for i, s := range mine.byType {
		copy(record[i*len(s):], s[:])
	}
	all := make([]uint64, len(record)*len(sides))
	if err := c.allgather(call.Within(), bytesOf(all), bytesOf(record), sizeOf[uint64]()); err != nil {
		return "", err
	}
	for i, kind := range types {
		ranks, most := map[splitColor]int{}, 0
		there := func(r int) splitColor { return splitColor(all[(r*len(types)+i)*len(splitColor{}):]) }
		for r := range sides {
			if s := there(r); s != (splitColor{}) {
				ranks[s]++
				most = max(most, ranks[s])
			}
		}
		if most == 0 || most == len(sides) {
			continue
		}
		for r := range sides {
			if s := there(r); s != (splitColor{}) {
				sides[r] = s
			}
		}
		return hwlocPrefix + kind, nil
	}
	return "", nil
}
