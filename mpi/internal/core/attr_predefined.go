package core

import (
	"errors"
	"fmt"
	"os"
)

// PredefinedKey is the number of the key of a predefined attribute in the MPI-5.0 ABI (§20.3). The
// value of each is an int.
type PredefinedKey int16

// The keys of the predefined attributes. Package mpi says what their values are.
const (
	KeyTagUB         PredefinedKey = 501
	KeyIO            PredefinedKey = 502
	KeyHost          PredefinedKey = 503
	KeyWtimeIsGlobal PredefinedKey = 504
	KeyAppNum        PredefinedKey = 505
	KeyLastUsedCode  PredefinedKey = 506
	KeyUniverseSize  PredefinedKey = 507
)

var errPredefined = errors.New("the attribute is predefined")

// PredefinedAttr returns a predefined attribute of c, and false if c does not have it.
func PredefinedAttr(c *Comm, s PredefinedKey) (value int, ok bool) {
	p := c.proc
	switch {
	case s == KeyTagUB:
		return maxTag, true
	case s == KeyWtimeIsGlobal:
		return 1, p.clocks.Agrees()
	case c != p.world:
		return 0, false
	case s == KeyIO:
		return p.env.ioRank, true
	case s == KeyHost:
		return ProcNull, true
	case s == KeyLastUsedCode:
		return p.codes.last(), true
	case s == KeyAppNum:
		return optionalInt(p.boot.AppNum)
	}
	return optionalInt(p.boot.UniverseSize)
}

// optionalInt returns a number that the launcher may not have provided; it is negative then.
func optionalInt(n int) (int, bool) { return max(n, 0), n >= 0 }

// ioAttribute returns the value of IO. able reports whether this process offers I/O, and all
// whether every process does. first is the lowest rank that does; size if none does.
func ioAttribute(self, size, first int, able, all bool) int {
	switch {
	case all:
		return AnySource
	case able:
		return self
	case first < size:
		return first
	}
	return ProcNull
}

// probeIO tests the operations of language-standard input and output.
func probeIO() (err error) {
	if _, err := os.Stdout.Stat(); err != nil {
		return err
	}
	f, err := os.CreateTemp("", "ibrun-io-")
	if err != nil {
		if f, err = os.CreateTemp(".", ".ibrun-io-"); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	if _, err := f.WriteString("language-standard"); err != nil {
		return err
	}
	if _, err := f.Seek(9, 0); err != nil {
		return err
	}
	var b [8]byte
	if n, err := f.Read(b[:]); err != nil || string(b[:n]) != "standard" {
		return fmt.Errorf("wrote standard, read %q: %w", b[:n], err)
	}
	return nil
}
