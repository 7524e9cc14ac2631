package mpi

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
)

// NumPsets is the number of process sets that this process is in. It never becomes less. There is no hint yet.
// MPI-5.0 §11.3.2.
func (s *Session) NumPsets(_ *Info) (int, error) {
	if err := s.checkUsable("Session.NumPsets"); err != nil {
		return 0, err
	}
	return len(s.proc.psetList.mine), nil
}

// NthPset is the name of process set n of those that this process is in, from 0; it never changes, and has 1 to
// MaxPsetName bytes. Any other n is ErrArg. There is no hint yet. MPI-5.0 §11.3.2.
func (s *Session) NthPset(_ *Info, n int) (string, error) {
	const op = "Session.NthPset"
	if err := s.checkUsable(op); err != nil {
		return "", err
	}
	mine := s.proc.psetList.mine
	if n < 0 || n >= len(mine) {
		return "", s.newError(op, ErrArg, fmt.Errorf("process set %d of %d", n, len(mine)))
	}
	return mine[n].name, nil
}

// CopyNthPset is NthPset into a buffer: as much of the name as fits. It returns the length of the whole name, however
// long the buffer; that may be nil. On an error it is left alone. MPI-5.0 §11.3.2.
func (s *Session) CopyNthPset(info *Info, n int, buf []byte) (length int, err error) {
	name, err := s.NthPset(info, n)
	if err != nil {
		return 0, err
	}
	copy(buf, name)
	return len(name), nil
}

// PsetInfo describes a process set, in a new Info: mpi_size is the number of its processes. The name is as NthPset has it,
// or known otherwise; that of no set is ErrArg. MPI-5.0 §11.3.4.
func (s *Session) PsetInfo(name string) (*Info, error) {
	set, err := s.pset("Session.PsetInfo", name)
	if err != nil {
		return nil, err
	}
	i := &Info{}
	return i, i.Set("mpi_size", strconv.Itoa(len(set.peers)))
}

// pset finds a set by its name.
func (s *Session) pset(op, name string) (*pset, error) {
	if err := s.checkUsable(op); err != nil {
		return nil, err
	}
	set, err := s.proc.psetList.find(name)
	if err != nil {
		return nil, s.newError(op, ErrArg, fmt.Errorf("process set %q: %w", name, err))
	}
	return set, nil
}

// psetList is the process sets of a job. It does not change.
type psetList struct {
	mine   []*pset // those with this process, in the order of their numbers
	others []*pset
}

// pset is a process set. Sets of the same name have no process in common.
type pset struct {
	name  string
	peers []int32
}

// loadPsets makes the catalogue of the process, once. The caller holds mu.
func (p *Process) loadPsets() (err error) {
	if p.psetList == nil {
		p.psetList, err = newPsetList(p.boot)
	}
	return err
}

// psets is the catalogue of the process.
func (p *Process) psets() (*psetList, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.loadPsets()
	return p.psetList, err
}

func newPsetList(at *bootstrap.Process) (*psetList, error) {
	world := make([]int, at.Size)
	for i := range world {
		world[i] = i
	}
	sets := []bootstrap.Pset{{Name: "mpi://WORLD", Ranks: world}, {Name: "mpi://SELF", Ranks: []int{at.Rank}}}
	if at.Psets != nil {
		more, err := at.Psets()
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
		if slices.Contains(s.Ranks, at.Rank) {
			k.mine = append(k.mine, set)
		} else {
			k.others = append(k.others, set)
		}
	}
	return k, nil
}

// find returns this process's set of that name, or the only one.
func (k *psetList) find(name string) (found *pset, err error) {
	for _, s := range k.mine {
		if s.name == name {
			return s, nil
		}
	}
	for _, s := range k.others {
		if s.name == name && found != nil {
			return nil, errors.New("there are several of that name, and this process is in none of them")
		}
		if s.name == name {
			found = s
		}
	}
	if found == nil {
		return nil, errors.New("there is none")
	}
	return found, nil
}
