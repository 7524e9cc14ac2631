package profile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"testing"

	"github.com/ibrun/ibrun/internal/waittest"
)

// TestParts: a process that never stops leaves what it had, and one that stops all of it, each part complete.
func TestParts(t *testing.T) {
	memory := make([]byte, Bytes)
	c, err := Start(memory)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(make([]byte, Bytes)); err == nil {
		t.Error("two at a time")
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	parts, err := Read(memory[:Used(memory)])
	if err != nil || len(parts) < 2 || len(parts)%2 != 0 { // more than two if this machine is slow
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	for i, p := range parts {
		if want := []Kind{CPU, Goroutines}[i%2]; p.Kind != want {
			t.Errorf("part %d is of kind %d, want %d", i, p.Kind, want)
		}
		z, err := gzip.NewReader(bytes.NewReader(p.Data))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(z); err != nil || len(text) == 0 {
			t.Errorf("part of kind %d: %d bytes, %v", p.Kind, len(text), err)
		}
	}
	if _, err := Start(memory[:Bytes-1]); err == nil {
		t.Error("short memory: no error")
	}
}

// TestRotation: parts come before Stop, so that a killed process leaves some.
func TestRotation(t *testing.T) {
	for wait := 2 * shortest; ; wait *= 2 { // a machine may be slow
		memory := make([]byte, Bytes)
		c, err := Start(memory)
		if err != nil {
			t.Fatal(err)
		}
		waittest.Elapse(t, wait, "parts come meanwhile")
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		parts, err := Read(memory)
		if err != nil {
			t.Fatal(err)
		}
		if len(parts) > 2 {
			return
		}
		if wait > waittest.Limit {
			t.Fatal("no part has come but the last")
		}
	}
}

// TestFull: what finds no room is not there, and what was there stays.
func TestFull(t *testing.T) {
	c := &Collector{memory: make([]byte, Bytes), used: Head}
	c.word(0, magic)
	c.word(1, version)
	c.word(2, Head)
	if err := c.put(CPU, make([]byte, Bytes-Head-8-100)); err != nil {
		t.Fatal(err)
	}
	if err := c.put(Goroutines, make([]byte, 93)); !errors.Is(err, ErrFull) {
		t.Errorf("93 bytes more: %v", err)
	}
	if parts, err := Read(c.memory); !errors.Is(err, ErrFull) || len(parts) != 1 || len(parts[0].Data) != Bytes-Head-108 {
		t.Errorf("%d parts, %v", len(parts), err)
	}
	if err := c.put(Goroutines, make([]byte, 92)); err != nil {
		t.Errorf("what just fits: %v", err)
	}
}

// sample is memory with parts.
func sample(t testing.TB) []byte {
	c := &Collector{memory: make([]byte, Bytes), used: Head}
	c.word(0, magic)
	c.word(1, version)
	for i := range 3 {
		if err := c.put(Kind(1+i%2), bytes.Repeat([]byte{byte(i)}, i*10)); err != nil {
			t.Fatal(err)
		}
	}
	return c.memory[:Used(c.memory)]
}

func TestPrefixes(t *testing.T) {
	b := sample(t)
	for n := range b {
		if parts, err := Read(b[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are %d parts", n, len(b), len(parts))
		}
	}
	if _, err := Read(make([]byte, Head)); !errors.Is(err, ErrEmpty) {
		t.Errorf("nothing written: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(sample(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		parts, err := Read(b)
		n := 0
		for _, p := range parts {
			n += len(p.Data) + 8
		}
		if n > len(b) || err == nil && Used(b) != n+Head {
			t.Errorf("%d bytes of parts in %d, of which %d are used", n, len(b), Used(b))
		}
	})
}
