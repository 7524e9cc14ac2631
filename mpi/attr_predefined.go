package mpi

import (
	"errors"
	"fmt"
	"math"
	"os"
)

// predefinedKey is the number of a predefined key in the MPI-5.0 ABI (§20.3).
type predefinedKey int16

// The predefined attributes. Their keys are valid always and for all processes; they cannot be set, deleted or freed.
// Those that are not there for a communicator are not found, which is no error. MPI-5.0 §9.1.2.
var (
	// TagUB is the greatest tag, on every communicator: 2^31-1 with every transport.
	TagUB = Keyval[int]{predefined: keyTagUB}
	// IO is AnySource if all processes offer language-standard I/O, or else the rank of this one if it does, or of the
	// first that does, or ProcNull. Each has tried it in Init: standard output is open, and a file can be made, written,
	// positioned and read. On World.
	IO = Keyval[int]{predefined: keyIO}
	// Host is ProcNull: no process is a host. On World.
	Host = Keyval[int]{predefined: keyHost}
	// WtimeIsGlobal is 1 if Wtime is the same clock at all processes or was brought together as far as messages can
	// tell, and 0 otherwise. See Wtime. On every communicator.
	WtimeIsGlobal = Keyval[int]{predefined: keyWtimeIsGlobal}
	// AppNum is the number of this process's program among those that the launcher was given, separated by colons. On
	// World, if the launcher numbers them.
	AppNum = Keyval[int]{predefined: keyAppNum}
	// LastUsedCode is the greatest error class or code in use; it grows with AddErrorClass and AddErrorCode. On World.
	LastUsedCode = Keyval[int]{predefined: keyLastUsedCode}
	// UniverseSize is how many processes the launcher has room for. On World, if the launcher tells.
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

// predefinedValue returns an attribute of c that its user cannot change. All of them are ints.
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
		return math.MaxInt32, true
	case s == keyWtimeIsGlobal:
		if p.clockSync.global {
			return 1, true
		}
		return 0, true
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

// optionalInt is a number that the launcher may not tell.
func optionalInt(n int) (int, bool) { return max(n, 0), n >= 0 }

// ioAttribute is what IO says: able tells whether this process offers it, all whether every one does, and first is the
// lowest rank that does, size if none does.
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

// probeIO tries what a program expects of language-standard input and output.
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
