package clocksync

import (
	"crypto/sha256"
	"encoding/binary"
)

// Source is a clock as a machine has it.
type Source struct {
	// ID is the same for sources that are one clock, in whatever process.
	ID uint64
	// Now is the time in nanoseconds since a moment of the source's own. It never goes back. Any goroutine may call it.
	Now func() int64
}

// Local is this machine's monotonic clock, as this process sees it. It fails if the system does not tell which clock that
// is.
func Local() (Source, error) {
	name, err := clockName()
	if err != nil {
		return Source{}, err
	}
	return Source{ID: Hash(name), Now: monotonic}, nil
}

// Hash makes a number of a name. Different names practically never have the same.
func Hash(name string) uint64 {
	sum := sha256.Sum256([]byte(name))
	return binary.LittleEndian.Uint64(sum[:])
}
