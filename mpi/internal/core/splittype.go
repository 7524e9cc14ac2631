package core

import (
	"slices"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/perf"
)

// SplitType is the criterion by which [SplitByType] divides a communicator. Undefined is also
// allowed.
type SplitType int32

// The split types.
const (
	// TypeShared groups the ranks of a node.
	TypeShared = 221
	// TypeHWUnguided groups by the largest type of hardware resource that divides the communicator.
	TypeHWUnguided = 222
	// TypeHWGuided groups by the type of hardware resource in the info.
	TypeHWGuided = 223
	// TypeResourceGuided groups by the type of hardware resource or the process set in the info.
	TypeResourceGuided = 224
)

// Keys of the info of SplitType, and the value that means the same as TypeShared.
const (
	keyResource = "mpi_hw_resource_type"
	keyPset     = "mpi_pset_name"
	valueShared = "mpi_shared_memory"
)

// SplitByType creates communicators of ranks that share a resource, each ordered by key and then by
// rank in c.
func SplitByType(c *Comm, by SplitType, key int, info *Info) (*Comm, error) {
	const call = perf.SplitType
	a, err := begin(c, call, c.checkUsable(call.String()))
	if err != nil {
		return nil, err
	}
	defer a.end()
	// A rank that fails takes part as if it gave Undefined, so that the other ranks do not block.
	mine, failed := c.proc.machine.newSplitRequest(by, info)
	failed = c.wrapError(a.op, failed)
	colors, keys, unguided, err := a.exchangeSplitRequests(&mine, key)
	kind := ""
	if err == nil && unguided {
		kind, err = a.chooseResourceType(colors, &mine)
	}
	var d *Comm
	if err == nil {
		d, err = a.splitByColor(colors, keys)
	}
	// After the split, in which the other ranks have needed this one.
	if failed != nil {
		return nil, c.joinError(a.op, failed, err)
	}
	if d == nil {
		return nil, err
	}
	if err := newAgreement(d, call).setInfo(info); err != nil {
		return nil, c.joinError(a.op, err, newAgreement(d, call).free())
	}
	if mine.byType != nil && info != nil {
		err = info.Set(keyResource, kind)
	}
	return d, c.wrapError(a.op, err)
}

// splitRequest is what a rank asks of a split: a color, or for TypeHWUnguided one color for each
// type of resource.
type splitRequest struct {
	color  splitColor
	byType []splitColor // in the order of hw.ResourceTypes; nil except for TypeHWUnguided
}

// exchangeSplitRequests returns the colors and keys of all ranks, and whether any rank gave
// TypeHWUnguided.
func (a *agreement) exchangeSplitRequests(mine *splitRequest, key int) (
	colors []splitColor, keys []int, unguided bool, err error,
) {
	const words = len(splitColor{}) + 2
	record := append(mine.color[:], uint64(key), 0)
	if mine.byType != nil {
		record[words-1] = 1
	}
	all, err := a.gatherAll(record)
	if err != nil {
		return nil, nil, false, err
	}
	for r := range slices.Chunk(all, words) {
		colors = append(colors, splitColor(r[:words-2]))
		keys = append(keys, int(r[words-2]))
		unguided = unguided || r[words-1] != 0
	}
	return colors, keys, unguided, nil
}

// chooseResourceType finds the largest type that divides the communicator, and sets the colors of
// the ranks that gave TypeHWUnguided.
func (a *agreement) chooseResourceType(colors []splitColor, mine *splitRequest) (kind string, err error) {
	types := hw.ResourceTypes()
	record := make([]uint64, len(types)*len(splitColor{}))
	for i, s := range mine.byType {
		copy(record[i*len(s):], s[:])
	}
	all, err := a.gatherAll(record)
	if err != nil {
		return "", err
	}
	for i, kind := range types {
		ranks, most := map[splitColor]int{}, 0
		colorOf := func(r int) splitColor { return splitColor(all[(r*len(types)+i)*len(splitColor{}):]) }
		for r := range colors {
			if s := colorOf(r); s != (splitColor{}) {
				ranks[s]++
				most = max(most, ranks[s])
			}
		}
		// A type that no rank is restricted to, or one instance of which has all ranks, divides
		// nothing.
		if most == 0 || most == len(colors) {
			continue
		}
		for r := range colors {
			if s := colorOf(r); s != (splitColor{}) {
				colors[r] = s
			}
		}
		return hwlocPrefix + kind, nil
	}
	return "", nil
}
