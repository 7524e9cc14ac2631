package core

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
)

// NumPsets returns the number of process sets to which this process belongs.
func (s *Session) NumPsets() (int, error) {
	if err := s.checkUsable("Session.NumPsets"); err != nil {
		return 0, err
	}
	return len(s.psets.mine), nil
}

// NthPset returns the name of process set n, from 0, of those to which this process belongs.
func (s *Session) NthPset(n int) (string, error) {
	const op = "Session.NthPset"
	if err := s.checkUsable(op); err != nil {
		return "", err
	}
	mine := s.psets.mine
	if n < 0 || n >= len(mine) {
		return "", s.newError(op, ErrArg,
			fmt.Errorf("process set %d is out of range: this process is in %d sets, numbered from 0", n, len(mine)))
	}
	return mine[n].name, nil
}

// CopyNthPset copies the name that NthPset returns to a buffer, as much as fits.
func (s *Session) CopyNthPset(n int, buf []byte) (length int, err error) {
	name, err := s.NthPset(n)
	if err != nil {
		return 0, err
	}
	copy(buf, name)
	return len(name), nil
}

// PsetInfo describes a process set in a new Info: mpi_size is the number of its processes.
func (s *Session) PsetInfo(name string) (*Info, error) {
	set, err := s.pset("Session.PsetInfo", name)
	if err != nil {
		return nil, err
	}
	i := &Info{}
	return i, i.Set("mpi_size", strconv.Itoa(len(set.peers)))
}

// pset returns the set with this name.
func (s *Session) pset(op, name string) (*pset, error) {
	if err := s.checkUsable(op); err != nil {
		return nil, err
	}
	set, err := s.psets.find(name)
	if err != nil {
		return nil, s.newError(op, ErrArg, fmt.Errorf("process set %q: %w", name, err))
	}
	return set, nil
}

// psetList holds the process sets of a job. It never changes.
type psetList struct {
	mine   []*pset // sets to which this process belongs, in the order of their numbers
	others []*pset
}

// pset is a process set. Sets with the same name have no process in common.
type pset struct {
	name  string
	peers []int32
}

// psets is the list of process sets, which is made when it is needed first.
type psets struct {
	mu   sync.Mutex
	list *psetList
}

// get returns the list. boot has the sets of the job.
func (p *psets) get(boot *bootstrap.Process) (_ *psetList, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list == nil {
		p.list, err = newPsetList(boot)
	}
	return p.list, err
}

func newPsetList(boot *bootstrap.Process) (*psetList, error) {
	world := make([]int, boot.Size)
	for i := range world {
		world[i] = i
	}
	sets := []bootstrap.Pset{{Name: "mpi://WORLD", Ranks: world}, {Name: "mpi://SELF", Ranks: []int{boot.Rank}}}
	if boot.Psets != nil {
		more, err := boot.Psets()
		if err != nil {
			return nil, fmt.Errorf("find the process sets of the job: %w", err)
		}
		sets = append(sets, more...)
	}
	k := &psetList{}
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

// find returns the set with this name to which this process belongs, or else the only set with this name.
func (k *psetList) find(name string) (found *pset, err error) {
	for _, s := range k.mine {
		if s.name == name {
			return s, nil
		}
	}
	for _, s := range k.others {
		if s.name == name && found != nil {
			return nil, errors.New("several sets have this name, and this process is in none of them")
		}
		if s.name == name {
			found = s
		}
	}
	if found == nil {
		return nil, errors.New("no such set")
	}
	return found, nil
}
