package shm

// Unsafe because the tests read and change single words of a ring, as a process that misbehaves would, and check
// whether an address lies within it. The memory is the test's own.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"unsafe"
)

// TestCorruptHead: a writer accepts a position of the reader only if a correct reader can be there.
func TestCorruptHead(t *testing.T) {
	for _, head := range []uint64{1, 63, 64, 1 << 20, 1<<64 - 64, 1<<64 - 1, 4096 * 3} {
		p := newPair(t, make([]byte, RingBytes(4096)))
		for ok := true; ok; {
			var err error
			if ok, err = p.put(1000, 0); err != nil {
				t.Fatal(err)
			}
		}
		if head == 64 {
			head = p.w.tail + 64 // what it has not written yet
		}
		*p.w.head = head
		if ok, err := p.put(1000, 0); ok || !errors.Is(err, ErrCorrupt) {
			t.Errorf("reader at %d, writer at %d: %v, %v", head, p.w.tail, ok, err)
		}
	}
	p := newPair(t, make([]byte, RingBytes(4096)))
	for range 10 {
		if err := p.checkRoom(1000); err != nil {
			t.Fatal(err)
		}
	}
	*p.w.head = 0 // back
	for range 10 {
		if ok, err := p.put(1000, 0); errors.Is(err, ErrCorrupt) {
			return
		} else if !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	t.Error("a reader that goes back is accepted")
}

// TestCorruptWord: a reader accepts only words that a writer can write at that place.
func TestCorruptWord(t *testing.T) {
	for _, at := range []uint64{0, 1024, 4096 - 64} {
		for _, word := range []uint64{
			1, recordBit - 1, skipBit | 1, skipBit | recordBit, wrapBit, wrapBit | skipBit, wrapBit << 1, 1 << 63, 1<<64 - 1,
			recordBit | 1409, recordBit | 1<<31, recordBit | (1<<32 - 1), wrapBit | recordBit | 4096, wrapBit<<1 | recordBit | 8,
		} {
			p := newPair(t, make([]byte, RingBytes(4096)))
			p.r.pos = at
			*(*uint64)(p.w.at(at)) = word
			if got, err := p.r.Next(); got != nil || !errors.Is(err, ErrCorrupt) {
				t.Errorf("word %#x at %d: %d bytes, %v", word, at, len(got), err)
			}
		}
	}
	p := newPair(t, make([]byte, RingBytes(4096)))
	p.r.pos = 4096 - 64
	*(*uint64)(p.w.at(4096 - 64)) = recordBit | 57 // one more byte than there is
	if got, err := p.r.Next(); got != nil || !errors.Is(err, ErrCorrupt) {
		t.Errorf("a record beyond the end: %d bytes, %v", len(got), err)
	}
	for _, word := range []uint64{0, skipBit} {
		p := newPair(t, make([]byte, RingBytes(4096)))
		*(*uint64)(p.w.at(0)) = skipBit
		p.r.pos = 64
		*(*uint64)(p.w.at(64)) = skipBit
		*(*uint64)(p.w.at(0)) = word
		if got, err := p.r.Next(); got != nil || !errors.Is(err, ErrCorrupt) {
			t.Errorf("skip to word %#x: %d bytes, %v", word, len(got), err)
		}
	}
}

// TestCorruptNextSame: NextSame does not accept a word like the last one where such a record does not fit.
func TestCorruptNextSame(t *testing.T) {
	const n = 1000
	for _, last := range []uint64{4096 - 2*1024, 4096 - 2*1024 - 64} {
		p := newPair(t, make([]byte, RingBytes(4096)))
		p.r.pos = last
		fits := last+2*recordSize(n) <= 4096
		*(*uint64)(p.w.at(last)) = recordBit | n
		*(*uint64)(p.w.at(last + recordSize(n))) = recordBit | n
		if got, err := p.r.Next(); len(got) != n || err != nil {
			t.Fatal(len(got), err)
		}
		if got := p.r.NextSame(); (got != nil) != fits || fits && len(got) != n {
			t.Errorf("behind a record at %d: %d bytes", last, len(got))
		}
	}
	p := newPair(t, make([]byte, RingBytes(4096)))
	p.r.pos = 4096 - 1024
	*(*uint64)(p.w.at(4096 - 1024)) = recordBit | n
	*(*uint64)(p.w.at(0)) = recordBit | n
	for range 2 {
		if got := p.r.NextSame(); got != nil {
			t.Errorf("%d bytes that are like nothing before", len(got))
		}
	}
	if got, err := p.r.Next(); len(got) != n || err != nil {
		t.Fatal(len(got), err)
	}
	p.r.pos -= 64 // not where a record ends: one as long would end behind the space
	*(*uint64)(p.w.at(p.r.pos)) = recordBit | n
	if got := p.r.NextSame(); got != nil {
		t.Errorf("%d bytes beyond the end", len(got))
	}
}

// FuzzRing runs a ring in memory that something else writes to at any time. Nothing outside of the ring may be touched.
func FuzzRing(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3})
	f.Add(bytes.Repeat([]byte{0, 255, 1, 2}, 50))
	f.Add(bytes.Repeat([]byte{0, 60, 3, 0, 1, 1, 4, 200, 1, 2}, 20))
	f.Add(bytes.Repeat([]byte{5, 7, 0, 9, 1, 6, 3, 0, 9, 5, 200, 1, 2, 0, 30}, 30))
	f.Fuzz(func(t *testing.T, program []byte) {
		const space, fence = 4096, 8192
		all := bytes.Repeat([]byte{0xA5}, fence+RingBytes(space)+fence)
		mem := all[fence : fence+RingBytes(space) : fence+RingBytes(space)]
		clear(mem)
		h := fuzzer{pair: newPair(t, mem), program: program}
		for len(h.program) != 0 {
			h.step(t)
		}
		if bytes.Count(all[:fence], []byte{0xA5}) != fence || bytes.Count(all[fence+len(mem):], []byte{0xA5}) != fence {
			t.Fatal("bytes outside of the ring were written")
		}
	})
}

// fuzzer is a ring and a program of calls and of writes that no correct side makes.
type fuzzer struct {
	*pair
	program []byte
}

func (h *fuzzer) nextByte() int {
	if len(h.program) == 0 {
		return 0
	}
	b := h.program[0]
	h.program = h.program[1:]
	return int(b)
}

func (h *fuzzer) step(t *testing.T) {
	var err error
	switch h.nextByte() % 8 {
	case 0, 1:
		n := h.nextByte() * 6
		_, err = h.w.Put(h.record(min(n, h.w.maxLen)), nil)
	case 2, 3:
		var got []byte
		if got = h.r.NextSame(); got == nil {
			got, err = h.r.Next()
		}
		h.checkInside(t, got)
	case 4:
		h.r.Release()
	case 5: // the word that the reader loads next
		*(*uint64)(unsafe.Add(h.r.base, h.r.pos&h.r.mask)) = h.word()
	case 6: // the reader's position
		*h.w.head = h.word()
	case 7: // anything
		at := (h.nextByte()<<8 | h.nextByte()) % (len(h.mem) - 8)
		binary.NativeEndian.PutUint64(h.mem[at:], h.word())
	}
	if err != nil && !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

// word returns a word that is valid in part.
func (h *fuzzer) word() uint64 {
	v := uint64(h.nextByte()<<8 | h.nextByte())
	switch h.nextByte() % 6 {
	case 0:
		return recordBit | v%1500
	case 1:
		return recordBit | wrapBit | v%1500
	case 2:
		return skipBit
	case 3:
		return v &^ 63
	case 4:
		return v << 28
	}
	return -v
}

func (h *fuzzer) checkInside(t *testing.T, got []byte) {
	if got == nil {
		return
	}
	first := uintptr(unsafe.Pointer(unsafe.SliceData(h.mem))) + spaceStart
	at := uintptr(unsafe.Pointer(unsafe.SliceData(got)))
	if at < first || at+uintptr(len(got)) > first+uintptr(h.r.mask+1) {
		t.Fatalf("a record of %d bytes lies outside of the space", len(got))
	}
	for i := range got {
		_ = got[i]
	}
}
