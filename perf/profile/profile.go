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

// Head is how much of the memory Used looks at, in bytes.
const Head = 32

// The head: magic, version, bytes used with the head, and 1 if something found no room.
const (
	magic   = 0x4942_5255_4e50_4631
	version = 1
)

// Kind tells profiles apart.
type Kind uint8

// The kinds of profile, as package runtime/pprof writes them: compressed protocol buffers.
const (
	CPU Kind = 1 + iota
	Goroutines
)

// The length of a part before there is another.
const (
	shortest = 250 * time.Millisecond
	longest  = 8 * time.Second
)

// Collector takes the profiles of this process.
type Collector struct {
	memory []byte
	used   int
	cpu    bytes.Buffer // the part that is being taken
	quit   chan struct{}
	ended  sync.WaitGroup
	once   sync.Once
	err    error // the first
}

// ErrFull says that a profile found no room in the memory. What is there is whole.
var ErrFull = errors.New("profile: the memory is full; the rest of the run is not in the profile")

// Start begins to profile this process into memory, which is all zero and [Bytes] long, and must stay until Stop. It fails if
// a CPU profile is being taken already.
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

// Stop takes the last part and returns the first error there was. It takes up to 200 ms. Further calls do nothing but
// return the same. Any goroutine may call it; a nil Collector has nothing to stop.
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

// run ends parts and begins others until Stop, or until there is no room.
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
			err = pprof.StartCPUProfile(&c.cpu) // the program may have begun one of its own
		}
		if c.err = err; err != nil || last {
			return
		}
		if length < longest || c.used > Bytes/2 {
			length *= 2
		}
	}
}

// part keeps what was taken.
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

// put adds a part: a word of length and kind, and the profile. It counts once it is there.
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

// Part is a profile.
type Part struct {
	Kind Kind
	// Data is what package runtime/pprof wrote. It lies within what was read.
	Data []byte
}

// Errors of Read.
var (
	// ErrEmpty says that nobody has written the memory.
	ErrEmpty = errors.New("profile: nothing was written")
	// ErrCorrupt says that the memory makes no sense, or is of another version.
	ErrCorrupt = errors.New("profile: corrupt")
)

// Read returns the parts in the memory of a process that has ended, in order; of a copy the part is enough that [Used] tells.
// With ErrFull there are parts all the same.
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

// Used tells how many bytes of the memory have been used, from its head; 0 if none.
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
