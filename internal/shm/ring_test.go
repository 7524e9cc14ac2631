package shm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/alloctest"
)

// decoyWord is a word that a reader would accept as a record of eight bytes, wherever it read it.
const decoyWord = recordBit | 8

// pair is both sides of a ring, and a model of what is in it.
type pair struct {
	mem      []byte
	w        *Writer
	r        *Reader
	unread   [][]byte // put and not yet taken
	borrowed [][]byte // taken and not yet released: the bytes in the ring
	copies   [][]byte // the same records, as they were put
	seed     uint64
}

func newPair(t testing.TB, mem []byte) *pair {
	t.Helper()
	w, err := NewWriter(mem, len(mem))
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(mem, len(mem))
	if err != nil {
		t.Fatal(err)
	}
	return &pair{mem: mem, w: w, r: r}
}

// record returns n bytes: a sequence number where there is room for one, and decoy words behind it.
func (p *pair) record(n int) []byte {
	b := make([]byte, n)
	for at := 0; at+8 <= n; at += 8 {
		binary.NativeEndian.PutUint64(b[at:], decoyWord)
	}
	p.seed++
	if n >= 16 {
		binary.NativeEndian.PutUint64(b[8:], p.seed)
	} else {
		for i := range b {
			b[i] = byte(p.seed) + byte(i)
		}
	}
	return b
}

// put writes a record of n bytes, passed to Put in two parts.
func (p *pair) put(n, cut int) (bool, error) {
	b, before := p.record(n), *p.w
	ok, err := p.putRecord(b, cut)
	if ok {
		p.unread = append(p.unread, b)
		err = errors.Join(err, p.checkState(&before, n, n-cut))
	}
	return ok, err
}

// halves is a Packer of bytes.
type halves []byte

func (h halves) Pack(dst []byte, from int64) int { return copy(dst, h[from:]) }

// putRecord puts a record by Put, or by PutFrom, before which it tries a source that is too short.
func (p *pair) putRecord(b []byte, cut int) (bool, error) {
	if p.seed%3 != 0 || cut == len(b) {
		return p.w.Put(b[:cut], b[cut:])
	}
	if ok, err := p.w.PutFrom(b[:cut], halves(b[cut:]), 1, len(b)-cut); ok {
		return false, fmt.Errorf("a source that is too short by one byte was put: %v", err)
	}
	return p.w.PutFrom(b[:cut], halves(append([]byte{1, 2}, b[cut:]...)), 2, len(b)-cut)
}

// checkState checks what makes a ring fast, after a record of n bytes, the last of them its payload: where the writer is, and
// what it has prepared for the next record.
func (p *pair) checkState(before *Writer, n, payload int) error {
	w, size := p.w, recordSize(n)
	next, start := w.tail+size, (w.tail+w.mask)&^w.mask
	switch {
	case w.tail&w.mask+alignBytes > w.capacity:
		return fmt.Errorf("the writer is at %d, and confined to %d", w.tail, w.capacity)
	case payload < longPayload && w.shortInRow >= wrapAfterShort &&
		w.tail&w.mask >= w.shortArea && start+size+alignBytes <= before.limit && before.isFollowed(w.tail, size):
		return fmt.Errorf("the writer stays at %d though there is room at %d", w.tail, start)
	case payload < longPayload && w.tail&w.mask+size < w.shortArea && next+alignBytes <= before.limit && w.fastEnd < next:
		return fmt.Errorf("the writer is at %d, and the fast path reaches to %d instead of %d", w.tail, w.fastEnd, next)
	case payload >= longPayload && w.cleared > max(before.cleared, w.tail+alignBytes):
		return fmt.Errorf("the writer is at %d behind a long record, and has already cleared up to %d", w.tail, w.cleared)
	case payload >= longPayload != (w.LongCount() > before.LongCount()):
		return fmt.Errorf("a payload of %d bytes: %d were long before, %d are now", payload, before.LongCount(), w.LongCount())
	}
	return nil
}

// take reads one record and compares it.
func (p *pair) take() error {
	got := p.r.NextSame()
	var err error
	if got == nil {
		got, err = p.r.Next()
	}
	switch {
	case err != nil:
		return err
	case got == nil && len(p.unread) == 0:
		return nil
	case got == nil || len(p.unread) == 0:
		return fmt.Errorf("got %d bytes (nil: %v) while %d records are in the ring", len(got), got == nil, len(p.unread))
	case !bytes.Equal(got, p.unread[0]):
		return fmt.Errorf("got %d bytes, want the %d of the record that is next", len(got), len(p.unread[0]))
	}
	p.borrowed, p.copies, p.unread = append(p.borrowed, got), append(p.copies, p.unread[0]), p.unread[1:]
	return nil
}

// release checks that the records that were taken have not changed, and releases them.
func (p *pair) release() error {
	for i := range p.borrowed {
		if !bytes.Equal(p.borrowed[i], p.copies[i]) {
			return fmt.Errorf("a record of %d bytes changed before it was released", len(p.borrowed[i]))
		}
	}
	p.borrowed, p.copies = nil, nil
	p.r.Release()
	return nil
}

// placeDecoys writes a decoy word at every possible place in the part of the space that neither holds a record nor was cleared
// for the next words.
func (p *pair) placeDecoys() {
	for at := max(p.w.cleared, p.w.tail); at < p.w.limit; at += alignBytes {
		if at&p.w.mask < p.w.capacity {
			*(*uint64)(p.w.at(at)) = decoyWord
		}
	}
}

// check checks the invariants of a ring between two calls.
func (p *pair) check() error {
	if word := *(*uint64)(p.w.at(p.w.tail)); word != 0 {
		return fmt.Errorf("the next word is %#x before it is written", word)
	}
	if p.r.Ready() != (len(p.unread) != 0) {
		return fmt.Errorf("Ready is %v while %d records are in the ring", p.r.Ready(), len(p.unread))
	}
	return nil
}

// checkRoom checks that a ring whose records have all been taken has room for another.
func (p *pair) checkRoom(n int) error {
	for len(p.unread) != 0 {
		if err := p.take(); err != nil {
			return err
		}
	}
	if err := p.release(); err != nil {
		return err
	}
	if ok, err := p.put(n, n/2); !ok || err != nil {
		return fmt.Errorf("an empty ring with its writer at %d refuses %d bytes: %v", p.w.tail, n, err)
	}
	return nil
}

func TestRingModel(t *testing.T) {
	for _, space := range []int{4096, 8192, 16384, 32768} {
		for seed := range uint64(12) {
			t.Run(fmt.Sprintf("%d/%d", space, seed), func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, uint64(space)))
				p := newPair(t, make([]byte, RingBytes(space)))
				most := []int{60, 300, 1000, MaxRecord(space)}[seed%4]
				for i := range 4000 {
					if err := p.step(rnd, most); err != nil {
						t.Fatalf("step %d: %v", i, err)
					}
				}
				if p.w.tail < uint64(space) {
					t.Fatalf("the writer reached only %d of %d", p.w.tail, space)
				}
			})
		}
	}
}

// TestRingCapacity is TestRingModel with a writer that is confined to the beginning of the space, and to more of it from time to
// time. Nothing behind that is touched.
func TestRingCapacity(t *testing.T) {
	const space = 32768
	for seed := range uint64(24) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, space))
			p := newPair(t, make([]byte, RingBytes(space)))
			behind := p.mem[spaceStart:]
			for _, capacity := range []int{4096, 4096 + 5*alignBytes, 8192, 16384, space}[seed%4:] {
				p.w.SetCapacity(capacity)
				for i := range 1500 {
					if err := p.step(rnd, []int{60, 1000, MaxRecord(capacity)}[seed%3]); err != nil {
						t.Fatalf("confined to %d, step %d: %v", capacity, i, err)
					}
				}
				if err := p.checkRoom(MaxRecord(capacity)); err != nil {
					t.Fatalf("confined to %d: %v", capacity, err)
				}
				if i := bytes.IndexFunc(behind[capacity:], func(r rune) bool { return r != 0 }); i >= 0 {
					t.Fatalf("confined to %d, and touched %d bytes behind that", capacity, i)
				}
			}
		})
	}
}

// step makes a random call.
func (p *pair) step(rnd *rand.Rand, most int) error {
	var err error
	switch k := rnd.IntN(100); {
	case k < 45:
		n := rnd.IntN(most + 1)
		_, err = p.put(n, rnd.IntN(n+1))
	case k < 85:
		err = p.take()
	case k < 95:
		err = p.release()
	case k < 98:
		p.w.Prefetch()
	default:
		err = p.checkRoom(rnd.IntN(p.w.maxLen + 1))
	}
	if err != nil {
		return err
	}
	if rnd.IntN(4) == 0 {
		p.placeDecoys()
	}
	return p.check()
}

// TestRingNeverStuck: after any row of equal records there is room for a record of any length, once the others have been
// released.
func TestRingNeverStuck(t *testing.T) {
	const space = 4096
	mem, saved := make([]byte, RingBytes(space)), make([]byte, RingBytes(space))
	lengths := []int{0}
	for n := alignBytes - wordBytes; n < MaxRecord(space); n += alignBytes {
		lengths = append(lengths, n)
	}
	lengths = append(lengths, MaxRecord(space))
	for _, a := range lengths {
		clear(mem)
		p := newPair(t, mem)
		for range 12 {
			if err := p.checkRoom(a); err != nil {
				t.Fatalf("row of %d bytes: %v", a, err)
			}
			p.placeDecoys()
			copy(saved, mem)
			w, r, queue := *p.w, *p.r, p.unread
			for _, b := range lengths {
				if err := p.checkRoom(b); err != nil {
					t.Fatalf("after a row of %d bytes: %v", a, err)
				}
				copy(mem, saved)
				*p.w, *p.r, p.unread = w, r, queue
			}
		}
	}
}

func TestRingFull(t *testing.T) {
	for _, n := range []int{0, 8, 56, 57, 200, MaxRecord(4096)} {
		p := newPair(t, make([]byte, RingBytes(4096)))
		for pass := range 5 {
			for ok := true; ok; {
				var err error
				if ok, err = p.put(n, 0); err != nil {
					t.Fatal(err)
				}
			}
			if in := len(p.unread); in == 0 || uint64(in)*recordSize(n) > 4096 {
				t.Fatalf("%d records of %d bytes fit into 4096 in pass %d", in, n, pass)
			}
			if err := p.checkRoom(n); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestRingLongPayload: a long payload is distinguished from a short one also where neither needs a wrap.
func TestRingLongPayload(t *testing.T) {
	p := newPair(t, make([]byte, RingBytes(32768)))
	for _, n := range []int{0, longPayload - 1, longPayload} {
		if ok, err := p.put(n, 0); !ok || err != nil {
			t.Errorf("%d bytes: %v, %v", n, ok, err)
		}
	}
}

// TestWriterPrefetch: after long records Prefetch clears words for as many bytes again, but not where copies are timed or go past
// the caches.
func TestWriterPrefetch(t *testing.T) {
	for _, n := range []int{3000, nearBytes, 5000} {
		testWriterPrefetch(t, n)
	}
}

// TestWriterStores: a writer copies payloads by the stores that are set.
func TestWriterStores(t *testing.T) {
	p := newPair(t, make([]byte, RingBytes(16384)))
	for _, s := range []Stores{Cached, NonTemporal} {
		p.w.UseStores(s)
		for range 100 {
			if ok, err := p.put(nearBytes+100, 16); !ok || err != nil {
				t.Fatal(ok, err)
			}
			if err := p.take(); err != nil {
				t.Fatal(err)
			}
			if err := p.release(); err != nil {
				t.Fatal(err)
			}
		}
		c := &p.w.copier
		timed := c.fastest != [2]time.Duration{}
		if c.past != (s == NonTemporal && hasNonTemporal) || p.w.Stores() != s || timed || c.copies == 0 {
			t.Errorf("stores %d: %+v", s, c)
		}
	}
}

func testWriterPrefetch(t *testing.T, n int) {
	const row = 2
	p := newPair(t, make([]byte, RingBytes(16384)))
	for i := range 2 * roundCopies {
		if p.w.NeedsPrefetch() {
			t.Fatalf("round %d: NeedsPrefetch after Prefetch", i)
		}
		for range row {
			if ok, err := p.put(n, 16); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		if !p.w.NeedsPrefetch() {
			t.Fatalf("round %d: no NeedsPrefetch after long records", i)
		}
		for range row {
			if err := p.take(); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.release(); err != nil {
			t.Fatal(err)
		}
		before := p.w.cleared
		p.w.copier.past = i%2 == 1
		p.w.Prefetch()
		end := p.w.tail&^p.w.mask + p.w.capacity
		switch next := p.w.tail + row*recordSize(n) + alignBytes; {
		case n > nearBytes && (p.w.copier.past || p.w.copier.willSample(row)):
			if p.w.cleared != before {
				t.Fatalf("round %d: cleared up to %d, which must not be", i, p.w.cleared)
			}
		case p.w.cleared != max(before, min(next, p.w.limit, end)) || next > p.w.limit+alignBytes:
			t.Fatalf("round %d: the writer at %d cleared up to %d, want %d", i, p.w.tail, p.w.cleared, next)
		}
		if err := p.check(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRingWraps: if the reader keeps up, short records stay within the short-record area, and return there after long ones.
func TestRingWraps(t *testing.T) {
	p := newPair(t, make([]byte, RingBytes(1<<20)))
	pass := func(n int) {
		t.Helper()
		if ok, err := p.put(n, min(n, 16)); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if err := errors.Join(p.take(), p.release()); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		for i := range 20000 {
			pass(56)
			if at := p.w.tail & p.w.mask; i > 500 && at > p.w.shortArea+releaseBatch {
				t.Fatalf("after %d short records the writer is at %d", i, at)
			}
		}
		from := p.w.tail
		for range 40 {
			pass(3000)
			pass(100)
		}
		if p.w.tail-from > 40*(recordSize(3000)+recordSize(100)) {
			t.Fatalf("from %d to %d: long records do not use the whole space", from, p.w.tail)
		}
	}
}

// TestRingPreparesNext: with records of one length up to 1 KiB and a reader that keeps up, everything that the next record needs
// is done when the last one has been published: the writer knows that there is room, and words are clear, also where it will
// wrap.
func TestRingPreparesNext(t *testing.T) {
	for n := 0; n <= 1<<10; n += 32 {
		p := newPair(t, make([]byte, RingBytes(1<<20)))
		size := recordSize(16 + n)
		wraps := 0
		for i := range 4000 {
			before, zero := *p.w, true
			for at := uint64(0); at < size+alignBytes; at += alignBytes {
				zero = zero && *(*uint64)(p.w.at(at)) == 0
			}
			if ok, err := p.put(16+n, 16); !ok || err != nil {
				t.Fatal(ok, err)
			}
			end, start := before.tail+size, before.nextStart(before.tail)
			wrapped := p.w.tail == start
			switch {
			case i < 1000: // the first pass through the space, and the way to the first wrap
			case before.cleared < end+alignBytes || before.limit < end+alignBytes:
				t.Fatalf("%d bytes, record %d to %d: cleared up to %d, room up to %d", n, i, end, before.cleared, before.limit)
			case end&p.w.mask >= p.w.shortArea && !wrapped:
				t.Fatalf("%d bytes, record %d ends at %d, and the next one is behind it", n, i, end)
			case wrapped && before.limit < start+size+alignBytes:
				t.Fatalf("%d bytes, record %d at %d: room up to %d, and a wrap to %d", n, i, before.tail, before.limit, start)
			case wrapped && !zero:
				t.Fatalf("%d bytes, record %d at %d: a wrap to %d, where words are not clear", n, i, before.tail, start)
			case wrapped:
				wraps++
			}
			if err := errors.Join(p.take(), p.release()); err != nil {
				t.Fatal(err)
			}
		}
		if wraps == 0 {
			t.Errorf("%d bytes: no wrap", n)
		}
	}
}

func TestRingTooLong(t *testing.T) {
	p := newPair(t, make([]byte, RingBytes(4096)))
	for _, n := range []int{MaxRecord(4096) + 1, 4096, 1 << 20} {
		if ok, err := p.put(n, n); ok || err == nil || errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes: %v, %v", n, ok, err)
		}
	}
	if err := p.checkRoom(MaxRecord(4096)); err != nil {
		t.Error(err)
	}
}

func TestRingMemory(t *testing.T) {
	for _, n := range []int{0, 8, 4096, 8191, 4096 + 5000, 4096 + 2048} {
		if _, err := NewWriter(make([]byte, n), n); err == nil {
			t.Errorf("a writer over %d bytes", n)
		}
		if _, err := NewReader(make([]byte, n), n); err == nil {
			t.Errorf("a reader over %d bytes", n)
		}
	}
}

// TestRingConcurrent runs both sides at the same time.
func TestRingConcurrent(t *testing.T) {
	const count = 16000
	for _, space := range []int{4096, 16384} {
		for _, most := range []int{40, 500, MaxRecord(space)} {
			mem := make([]byte, RingBytes(space))
			in, out := newPair(t, mem), newPair(t, mem)
			if most <= MaxRecord(space/2) {
				in.w.SetCapacity(space / 2)
			}
			sizes := func() *rand.Rand { return rand.New(rand.NewPCG(uint64(space), uint64(most))) }
			failed := make(chan error, 1)
			var stop atomic.Bool
			go func() { failed <- in.write(sizes(), count, most, &stop) }()
			err := out.read(sizes(), count, most)
			stop.Store(true)
			if err := errors.Join(err, <-failed); err != nil {
				t.Fatalf("space %d, records up to %d: %v", space, most, err)
			}
		}
	}
}

func (p *pair) write(sizes *rand.Rand, count, most int, stop *atomic.Bool) error {
	for i := range count {
		if i == count/2 {
			p.w.SetCapacity(int(p.w.mask + 1))
		}
		b := p.record(lengthOf(i, most, sizes))
		for ok := false; !ok; {
			var err error
			if ok, err = p.w.Put(b, nil); err != nil {
				return err
			}
			if !ok && stop.Load() {
				return errors.New("the reader has stopped")
			}
			if !ok {
				runtime.Gosched()
			}
		}
	}
	return nil
}

// lengthOf returns the length of record i: random, random but short, 40 bytes, or the longest, in rows of 200.
func lengthOf(i, most int, sizes *rand.Rand) int {
	n := sizes.IntN(most + 1)
	switch i / 200 % 4 {
	case 0:
		return 40
	case 1:
		return n % 300 % (most + 1)
	case 2:
		return most
	}
	return n
}

func (p *pair) read(sizes *rand.Rand, count, most int) error {
	for i := range count {
		p.unread = append(p.unread, p.record(lengthOf(i, most, sizes)))
		for !p.r.Ready() {
			if err := p.release(); err != nil { // a reader that keeps records waits for ever
				return fmt.Errorf("before record %d: %w", i, err)
			}
			runtime.Gosched()
		}
		if err := p.take(); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
	}
	return nil
}

func TestRingAllocs(t *testing.T) {
	p := newPair(t, make([]byte, RingBytes(4096)))
	b := make([]byte, 100)
	n := alloctest.Count(1000, func() {
		if ok, err := p.w.Put(b[:24], b); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if got, err := p.r.Next(); len(got) != 124 || err != nil {
			t.Fatal(len(got), err)
		}
		p.r.Release()
	})
	if n != 0 {
		t.Errorf("%v allocations to put and take a record", n)
	}
}

func TestWords(t *testing.T) {
	mem := make([]byte, RingBytes(4096))
	p := newPair(t, mem)
	words := Words(mem)
	if len(words) != 62*alignBytes/8 {
		t.Fatalf("%d words", len(words))
	}
	for i := range words {
		words[i] = ^uint64(0)
	}
	if err := p.checkRoom(100); err != nil {
		t.Fatal(err)
	}
	if err := p.checkRoom(MaxRecord(4096)); err != nil {
		t.Errorf("words disturb the ring: %v", err)
	}
}
