package core

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
)

// Psets returns the process sets of the job; nil if the session cannot be used.
func (s *Session) Psets() *Psets {
	if s == nil || s.proc == nil || s.closed.Load() {
		return nil
	}
	return s.psets
}

// Len returns the number of process sets to which this process belongs.
func (k *Psets) Len() int {
	if k == nil {
		return 0
	}
	return len(k.mine)
}

// Nth returns the name of process set n, from 0, of those to which this process belongs.
func (k *Psets) Nth(n int) (string, error) {
	if n < 0 || n >= k.Len() {
		return "", faultf(ErrArg, "process set %d is out of range: this process is in %d sets, numbered from 0", n, k.Len())
	}
	return k.mine[n].name, nil
}

// Info describes a process set in a new Info: mpi_size is the number of its processes.
func (k *Psets) Info(name string) (*Info, error) {
	set, err := k.find(name)
	if err != nil {
		return nil, err
	}
	i := &Info{}
	return i, i.Set("mpi_size", strconv.Itoa(len(set.peers)))
}

// Psets are the process sets of a job. They never change. The errors of the methods are faults.
type Psets struct {
	mine   []*pset // sets to which this process belongs, in the order of their numbers
	others []*pset
}

// pset is a process set. Sets with the same name have no process in common.
type pset struct {
	name  string
	peers []int32
}

// psetCache has the list of process sets, which is made when it is needed first.
type psetCache struct {
	mu   sync.Mutex
	list *Psets
}

// get returns the list. boot has the sets of the job.
func (p *psetCache) get(boot *bootstrap.Process) (_ *Psets, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list == nil {
		p.list, err = newPsets(boot)
	}
	return p.list, err
}

func newPsets(boot *bootstrap.Process) (*Psets, error) {
	sets := []bootstrap.Pset{{Name: "mpi://WORLD", Ranks: firstNumbers[int](boot.Size)},
		{Name: "mpi://SELF", Ranks: []int{boot.Rank}}}
	// These two exist in every job (MPI-5.0 §11.3.2); the launcher names the others.
	if boot.Psets != nil {
		more, err := boot.Psets()
		if err != nil {
			return nil, fmt.Errorf("find the process sets of the job: %w", err)
		}
		sets = append(sets, more...)
	}
	k := &Psets{}
	for _, s := range sets {
		set := &pset{name: s.Name}
		for _, r := range s.Ranks {
			set.peers = append(set.peers, int32(r))
		}
		if slices.Contains(s.Ranks, boot.Rank) {
			k.mine = append(k.mine, set)
		} else {
			k.others = append(k.others, set)
		}
	}
	return k, nil
}

// find returns the set with this name to which this process belongs, or else the only set with this
// name.
func (k *Psets) find(name string) (*pset, error) {
	if k == nil {
		return nil, errNoPset
	}
	named := func(s *pset) bool { return s.name == name }
	if i := slices.IndexFunc(k.mine, named); i >= 0 {
		return k.mine[i], nil
	}
	i := slices.IndexFunc(k.others, named)
	switch {
	case i < 0:
		return nil, faultf(ErrArg, "process set %q: %w", name, errNoPset)
	case slices.ContainsFunc(k.others[i+1:], named):
		return nil, faultf(ErrArg, "process set %q: several sets have this name, and this process is in none of them", name)
	}
	return k.others[i], nil
}

var errNoPset = errors.New("no such set")
