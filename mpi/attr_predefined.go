package mpi

import (
	"errors"
	"fmt"
	"os"
)

// predefinedKey is the number of a predefined key in the MPI-5.0 ABI (§20.3).
type predefinedKey int16

// The keys of the predefined attributes. They are valid at any time and for all processes, and cannot be set, deleted or
// freed. Get reports false for an attribute that a communicator does not have. MPI-5.0 §9.1.2.
var (
	// TagUB (MPI_TAG_UB) is the greatest tag: 2^31-1 with every transport. On every communicator.
	TagUB = Keyval[int]{predefined: keyTagUB}
	// IO is AnySource if all processes offer language-standard I/O. Otherwise it is the rank of this process if it does,
	// else the lowest rank that does, else ProcNull. Init tests it: standard output is open, and a file can be created,
	// written, positioned and read. On World.
	IO = Keyval[int]{predefined: keyIO}
	// Host is ProcNull: no process is a host process. On World.
	Host = Keyval[int]{predefined: keyHost}
	// WtimeIsGlobal is 1 if Wtime reads the same clock in all processes, or if the clocks are synchronized now as well as
	// messages can measure: no two differ by more than half of the fastest round trip. The value never changes, and is never 0:
	// while clocks may differ by more, there is no attribute (MPI-5.0 §9.1.2). That is so for the first moments of a job on
	// several machines, and when they have not been able to compare their clocks for some time. See Wtime and WtimeError. On
	// every communicator.
	WtimeIsGlobal = Keyval[int]{predefined: keyWtimeIsGlobal}
	// AppNum is the index of this process's program among those on the launcher's command line, which colons separate. On
	// World, if the launcher provides it.
	AppNum = Keyval[int]{predefined: keyAppNum}
	// LastUsedCode is the greatest error class or code in use. AddErrorClass and AddErrorCode increase it. On World.
	LastUsedCode = Keyval[int]{predefined: keyLastUsedCode}
	// UniverseSize is the number of processes for which the launcher has room. On World, if the launcher provides it.
	UniverseSize = Keyval[int]{predefined: keyUniverseSize}
)

const (
	keyTagUB         predefinedKey = 501
	keyIO            predefinedKey = 502
	keyHost          predefinedKey = 503
	keyWtimeIsGlobal predefinedKey = 504
	keyAppNum        predefinedKey = 505
	keyLastUsedCode  predefinedKey = 506
	keyUniverseSize  predefinedKey = 507
)

var errPredefined = errors.New("the attribute is predefined")

// predefinedValue returns a predefined attribute of c. All of them are ints.
func predefinedValue[T any](c *Comm, s predefinedKey) (value T, ok bool) {
	v, ok := c.predefinedAttr(s)
	if x, isInt := any(&value).(*int); isInt {
		*x = v
	}
	return value, ok
}

func (c *Comm) predefinedAttr(s predefinedKey) (value int, ok bool) {
	p := c.proc
	switch {
	case s == keyTagUB:
		return maxTag, true
	case s == keyWtimeIsGlobal:
		return 1, p.clockSync.agrees()
	case c != p.world:
		return 0, false
	case s == keyIO:
		return p.env.ioRank, true
	case s == keyHost:
		return ProcNull, true
	case s == keyLastUsedCode:
		return p.codes.last(), true
	case s == keyAppNum:
		return optionalInt(p.boot.AppNum)
	}
	return optionalInt(p.boot.UniverseSize)
}

// optionalInt returns a number that the launcher may not have provided; it is negative then.
func optionalInt(n int) (int, bool) { return max(n, 0), n >= 0 }

// ioAttribute returns the value of IO. able reports whether this process offers I/O, and all whether every process
// does. first is the lowest rank that does; size if none does.
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
