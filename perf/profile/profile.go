package profile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/pprof"
	"sync"
	"time"
)

// Bytes is the length of the memory, a multiple of 64 KiB.
const Bytes = 4 << 20

// Head is the length in bytes of the head of the memory, which Used reads.
const Head = 32

// The words of the head: magic, version, bytes used including the head, and 1 if a profile did not fit.
const (
	magic   = 0x4942_5255_4e50_4631
	version = 1
)

// Kind is the kind of a profile.
type Kind uint8

// The kinds of profile, as package runtime/pprof writes them: compressed protocol buffers.
const (
	CPU Kind = 1 + iota
	Goroutines
)

// Bounds of the length of a part.
const (
	shortest = 250 * time.Millisecond
	longest  = 8 * time.Second
)

// Collector takes the profiles of this process.
type Collector struct {
	memory []byte
	used   int
	cpu    bytes.Buffer // the part in progress
	quit   chan struct{}
	ended  sync.WaitGroup
	once   sync.Once
	err    error // the first error
}

// ErrFull is returned if a profile did not fit into the memory. The profiles in the memory are complete.
var ErrFull = errors.New("profile: the memory is full; the rest of the run is not in the profile")

// Start starts to profile this process into memory, which must be zero, [Bytes] long, and valid until Stop. It returns an error
// if a CPU profile is in progress.
func Start(memory []byte) (*Collector, error) {
	if len(memory) < Bytes {
		return nil, fmt.Errorf("profile: %d bytes of memory, want %d", len(memory), Bytes)
	}
	c := &Collector{memory: memory[:Bytes], used: Head, quit: make(chan struct{})}
	if err := pprof.StartCPUProfile(&c.cpu); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	c.word(1, version)
	c.word(2, Head)
	c.word(0, magic)
	c.ended.Go(c.run)
	return c, nil
}

func (c *Collector) word(i int, v uint64) { binary.NativeEndian.PutUint64(c.memory[8*i:], v) }

// Stop completes the last part and returns the first error. It blocks for up to 200 ms. Further calls return the same error. It
// is safe for concurrent use, and for a nil Collector.
func (c *Collector) Stop() error {
	if c == nil {
		return nil
	}
	c.once.Do(func() {
		close(c.quit)
		c.ended.Wait()
	})
	return c.err
}

// run completes parts and starts new ones until Stop, or until the memory is full.
func (c *Collector) run() {
	length := shortest
	for {
		last := false
		select {
		case <-c.quit:
			last = true
		case <-time.After(length):
		}
		pprof.StopCPUProfile()
		err := c.part()
		if err == nil && !last {
			err = pprof.StartCPUProfile(&c.cpu) // the program may have started one of its own
		}
		if c.err = err; err != nil || last {
			return
		}
		if length < longest || c.used > Bytes/2 {
			length *= 2
		}
	}
}

// part stores the part in progress.
func (c *Collector) part() error {
	err := c.put(CPU, c.cpu.Bytes())
	c.cpu.Reset()
	if err != nil {
		return err
	}
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 0); err != nil {
		return fmt.Errorf("profile: goroutines: %w", err)
	}
	return c.put(Goroutines, stacks.Bytes())
}

// put appends a part: a word with length and kind, and the profile. The number of used bytes is stored last, so a reader sees
// only complete parts.
func (c *Collector) put(k Kind, b []byte) error {
	if len(b)+8 > len(c.memory)-c.used {
		c.word(3, 1)
		return ErrFull
	}
	binary.NativeEndian.PutUint64(c.memory[c.used:], uint64(len(b))<<8|uint64(k))
	copy(c.memory[c.used+8:], b)
	c.used += 8 + len(b)
	c.word(2, uint64(c.used))
	return nil
}

// Part is one profile.
type Part struct {
	Kind Kind
	// Data is the output of package runtime/pprof. It refers to the memory that Read was called with.
	Data []byte
}

// Errors of Read.
var (
	// ErrEmpty is returned for memory that was never written.
	ErrEmpty = errors.New("profile: nothing was written")
	// ErrCorrupt is returned for invalid content, and for content of another version.
	ErrCorrupt = errors.New("profile: corrupt")
)

// Read returns the parts in the memory of a process that has ended, in order. The first [Used] bytes suffice. It returns parts
// also together with ErrFull.
func Read(b []byte) (parts []Part, err error) {
	used, full, err := head(b)
	if err != nil {
		return nil, err
	}
	if used > len(b) {
		return nil, fmt.Errorf("%w: %d bytes of %d", ErrCorrupt, len(b), used)
	}
	for b = b[Head:used]; len(b) > 0; {
		if len(b) < 8 {
			return nil, fmt.Errorf("%w: %d bytes at the end", ErrCorrupt, len(b))
		}
		w := binary.NativeEndian.Uint64(b)
		k, n := Kind(w), w>>8
		if k < CPU || k > Goroutines || n > uint64(len(b)-8) {
			return nil, fmt.Errorf("%w: a part of kind %d and %d bytes where %d are left", ErrCorrupt, k, n, len(b)-8)
		}
		parts = append(parts, Part{k, b[8 : 8+n : 8+n]})
		b = b[8+n:]
	}
	if full {
		return parts, ErrFull
	}
	return parts, nil
}

// Used returns the number of bytes of the memory that are in use, from its start; 0 if it was never written.
func Used(b []byte) int {
	used, _, err := head(b)
	if err != nil {
		return 0
	}
	return used
}

func head(b []byte) (used int, full bool, err error) {
	if len(b) < Head {
		return 0, false, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(b))
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(b[8*i:]) }
	switch n := word(2); {
	case word(0) == 0:
		return 0, false, ErrEmpty
	case word(0) != magic:
		return 0, false, fmt.Errorf("%w: it begins with %#x", ErrCorrupt, word(0))
	case word(1) != version:
		return 0, false, fmt.Errorf("%w: version %d, this reads %d: build program and ibrun from one version",
			ErrCorrupt, word(1), version)
	case n < Head || n > Bytes:
		return 0, false, fmt.Errorf("%w: %d bytes used", ErrCorrupt, n)
	default:
		return int(n), word(3) != 0, nil
	}
}
