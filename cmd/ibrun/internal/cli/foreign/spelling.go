package foreign

import (
	"errors"
	"fmt"
	"strings"
)

// Launcher is a set of launchers.
type Launcher uint8

// The launchers.
const (
	OpenMPI  Launcher = 1 << iota // mpirun of Open MPI 4 and 5
	Hydra                         // mpiexec of MPICH and of Intel MPI
	Slurm                         // srun
	Torchrun                      // torchrun
	TACC                          // the ibrun of TACC and SDSC
)

const anyLauncher = OpenMPI | Hydra | Slurm | Torchrun | TACC

// launcherNames are the names of single launchers in messages.
func launcherNames() map[Launcher]string {
	return map[Launcher]string{OpenMPI: "Open MPI", Hydra: "MPICH", Slurm: "Slurm", Torchrun: "torchrun", TACC: "TACC's ibrun"}
}

// String returns the names of the launchers.
func (l Launcher) String() string {
	var names []string
	for one := OpenMPI; one <= TACC; one <<= 1 {
		if l&one != 0 {
			names = append(names, launcherNames()[one])
		}
	}
	return strings.Join(names, ", ")
}

// Spelling is one row of the table: a flag of other launchers, and what it means here. Exactly one of To, NoEffect and
// Instead gives the result; fields that begin with a small letter refine that.
type Spelling struct {
	// Of are the launchers that have the flag.
	Of Launcher
	// Names are its names without dashes. They mean the same.
	Names []string
	// Args are the names of its values in the documentation. Empty: it has none.
	Args []string
	// To are the flags of ibrun, separated by blanks. $1 is the first value.
	To string
	// NoEffect is the reason why nothing has to be done: the flag is accepted.
	NoEffect string
	// Instead is what to write instead: the flag is an error.
	Instead string
	// Note is a remark for the documentation.
	Note string
	// Means describes the flag, if flags of other launchers have the same name and another meaning.
	Means string

	// optional means that the value can be left out; it is given after "=" only.
	optional bool
	// pair means that NAME=VALUE in one word is accepted as well as NAME VALUE in two.
	pair bool
	// oneDash means that the row is for the spelling with one dash only. With two dashes it is a flag of ibrun.
	oneDash bool
	// telling means that users of ibrun do not write the flag, although ibrun has it. So it is of another launcher.
	telling bool
	// usual means that this meaning counts unless the other flags exclude it.
	usual bool
	// fits reports whether a value can be meant for this row. Nil: every value.
	fits func(string) bool
	// convert replaces To, for values that are written differently here.
	convert func(values []string) (meaning, error)
	// global means that the flag applies to all programs, also those before and after this one.
	global bool
	// keep collects the value under this name, for flags that mean something only together. See section.finish.
	keep string
}

// meaning is what a flag with certain values becomes.
type meaning struct {
	words []string // flags of ibrun
	note  string   // why there are none; for the user who asks
}

// to returns a meaning of these flags, each with its value after "=".
func to(words ...string) (meaning, error) { return meaning{words: words}, nil }

// noEffect returns a meaning of no flags.
func noEffect(why string) (meaning, error) { return meaning{note: why}, nil }

// instead returns the error of a value that has no counterpart.
func instead(format string, args ...any) (meaning, error) {
	return meaning{}, fmt.Errorf(format, args...)
}

// translate returns what the flag becomes.
func (s *Spelling) translate(values []string) (meaning, error) {
	switch {
	case s.convert != nil:
		return s.convert(values)
	case s.Instead != "":
		return meaning{}, errors.New(expand(s.Instead, values))
	}
	m := meaning{note: s.NoEffect}
	for word := range strings.FieldsSeq(s.To) {
		m.words = append(m.words, expand(word, values))
	}
	return m, nil
}

// expand replaces $1 and $2 in text by the values.
func expand(text string, values []string) string {
	var first, second string
	if len(values) > 0 {
		first = values[0]
	}
	if len(values) > 1 {
		second = values[1]
	}
	return strings.NewReplacer("$1", first, "$2", second).Replace(text)
}

// withDashes returns a flag as the launcher's users write it.
func withDashes(name string, of Launcher) string {
	short := len(name) == 1 || strings.Trim(name, "v") == "" || of == OpenMPI && len(name) == 2
	if short || of == Hydra || of == TACC {
		return "-" + name
	}
	return "--" + name
}
