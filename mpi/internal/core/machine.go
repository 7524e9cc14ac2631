package core

import (
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
	"github.com/ibrun/ibrun/mpi/internal/topology"
)

// Machine is where a process runs: on which node, with which hardware, in which process sets. The
// hardware is read at each call, since the process may have been moved.
type Machine struct {
	boot  *bootstrap.Process
	psets psetCache
}

// node returns the number of this process's node.
func (m *Machine) node() (int, error) {
	nodes, err := m.boot.Nodes()
	if err != nil {
		return 0, fmt.Errorf("get the nodes of the processes from the launcher: %w", err)
	}
	return nodes[m.boot.Rank], nil
}

// color returns the color of a process on this node in a split by the resource.
func (h *hwResource) color(node int) splitColor {
	switch {
	case !h.restricted:
		return splitColor{}
	case h.acrossNodes:
		return newSplitColor(h.key, h.instance)
	}
	return newSplitColor(h.key, h.instance, node)
}

// resourceColor returns the color of this process in a split by a type of hardware resource.
func (m *Machine) resourceColor(kind string) (splitColor, error) {
	node, err := m.node()
	if err != nil {
		return splitColor{}, err
	}
	if kind == valueShared {
		return newSplitColor(kind, node), nil
	}
	held, err := m.resources()
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

// typeColors returns the colors of this process in splits by each type of resource.
func (m *Machine) typeColors() ([]splitColor, error) {
	types := hw.ResourceTypes()
	colors := make([]splitColor, len(types)) // returned with an error too: the rank takes part in the split
	node, err := m.node()
	if err != nil {
		return colors, err
	}
	held, err := m.resources()
	if err != nil {
		return colors, err
	}
	for _, h := range held {
		for i, kind := range types {
			if h.key == hwlocPrefix+kind {
				colors[i] = h.color(node)
			}
		}
	}
	return colors, nil
}

// psetColor returns the color of this process in a split by a process set: the zero color if it is
// in no set with this name.
func (m *Machine) psetColor(name string) (splitColor, error) {
	sets, err := m.psets.get(m.boot)
	if err != nil {
		return splitColor{}, err
	}
	for _, s := range sets.mine {
		if s.name == name {
			return newSplitColor(name, slices.Min(s.peers)), nil // sets with the same name have no rank in common
		}
	}
	return splitColor{}, nil
}

// newSplitRequest returns the request of this rank.
func (m *Machine) newSplitRequest(by SplitType, info *Info) (splitRequest, error) {
	resource, named := info.Get(keyResource)
	pset, grouped := info.Get(keyPset)
	switch by {
	case TypeHWUnguided:
		byType, err := m.typeColors()
		return splitRequest{byType: byType}, err
	case TypeShared:
		resource, named, grouped = valueShared, true, false
	case TypeHWGuided:
		grouped = false
	case TypeResourceGuided:
	case Undefined:
		named, grouped = false, false
	default:
		return splitRequest{}, faultf(ErrArg, "unknown split type %d", by)
	}
	if !named && !grouped {
		return splitRequest{}, nil
	}
	var colors [2]splitColor
	var err [2]error
	if named {
		colors[0], err[0] = m.resourceColor(resource)
	}
	if grouped {
		colors[1], err[1] = m.psetColor(pset)
	}
	// A process must be in both parts to be in a part of the split. One that is missing in either,
	// or has failed, gets none.
	if named && colors[0] == (splitColor{}) || grouped && colors[1] == (splitColor{}) {
		return splitRequest{}, join(err[:]...)
	}
	return splitRequest{color: newSplitColor(colors)}, nil
}

// place returns where this process runs. If the machine cannot be read, the user is told, and only
// the node is known.
func (m *Machine) place() (topology.Place, error) {
	node, err := m.node()
	if err != nil {
		return topology.Place{}, err
	}
	top, allowed, err := m.boot.Hardware()
	if err != nil {
		if m.boot.Report != nil {
			m.boot.Report(fmt.Sprintf("ranks are reordered by node only: cannot read the machine: %v", err))
		}
		return topology.UnknownPlace(node), nil
	}
	return topology.PlaceOf(top, allowed, node), nil
}
