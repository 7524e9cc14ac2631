package cli

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Pset is a process set: a name for some ranks of the job. Programs find it in their sessions.
type Pset struct {
	// Name is as the user wrote it.
	Name string
	// Ranks are in no particular order.
	Ranks Ranges
}

// maxPsetName is the length of the longest name in bytes that MPI allows.
const maxPsetName = 1023

func (o *Options) psetFlags() []flag {
	return []flag{
		{[]string{"pset"}, "NAME=RANKS", "define a process set with these ranks (0,2-3); may be repeated", o.addPset},
	}
}

func (o *Options) addPset(s string) error {
	i := strings.LastIndexByte(s, '=')
	if i < 1 {
		return errors.New("want a name and ranks, such as ocean=0-3,8")
	}
	p := Pset{Name: s[:i]}
	if err := p.Ranks.Set(s[i+1:]); err != nil {
		return err
	}
	switch {
	case len(p.Name) > maxPsetName:
		return fmt.Errorf("a name has at most %d bytes", maxPsetName)
	case !utf8.ValidString(p.Name) || strings.ContainsRune(p.Name, 0):
		return errors.New("a name is UTF-8 without NUL")
	case strings.HasPrefix(p.Name, "mpi://"), strings.HasPrefix(p.Name, "ibrun://"):
		return errors.New("names that begin with mpi:// or ibrun:// are reserved")
	}
	for _, other := range o.Psets {
		if other.Name == p.Name {
			return errors.New("a process set of this name is already defined")
		}
	}
	o.Psets = append(o.Psets, p)
	return nil
}
