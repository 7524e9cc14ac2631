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
)

// trap is a word that would be taken for a record of eight bytes wherever a reader looked for one.
const trap = recordBit | 8

// pair is both sides of a ring, and what a correct one has in it.
type pair struct {
	mem    []byte
	w      *Writer
	r      *Reader
	queue  [][]byte // put and not yet taken
	lent   [][]byte // taken and not yet released, as the ring lends them
	copies [][]byte // the same as they were put
	seed   uint64
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

// record is n bytes: a number where there is room for it, and behind it nothing but traps.
func (p *pair) record(n int) []byte {
	b := make([]byte, n)
	for at := 0; at+8 <= n; at += 8 {
		binary.NativeEndian.PutUint64(b[at:], trap)
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

// put writes a record of n bytes, cut in two.
func (p *pair) put(n, cut int) (bool, error) {
	b, before := p.record(n), *p.w
	ok, err := p.w.Put(b[:cut], b[cut:])
	if ok {
		p.queue = append(p.queue, b)
		err = errors.Join(err, p.place(&before, n, n-cut))
	}
	return ok, err
}

// place checks what makes a ring fast: where the writer is behind a record of n bytes, the last of them its payload, and what it
// has prepared for the next one.
func (p *pair) place(before *Writer, n, payload int) error {
	w, size := p.w, recordSize(n)
	next, start := w.tail+size, (w.tail+w.mask)&^w.mask
	switch {
	case w.tail&w.mask+unitBytes > w.lap:
		return fmt.Errorf("the writer is at %d, and confined to %d", w.tail, w.lap)
	case payload < longBytes && w.calm >= calm &&
		w.tail&w.mask >= w.turn && start+size+unitBytes <= before.limit:
		return fmt.Errorf("the writer stays at %d though there is room at %d", w.tail, start)
	case payload < longBytes && w.tail&w.mask+size < w.turn && next+unitBytes <= before.limit && w.ready < next:
		return fmt.Errorf("the writer is at %d, and short records simply follow up to %d, not to %d", w.tail, w.ready, next)
	case payload >= longBytes && w.cleared > max(before.cleared, w.tail+unitBytes):
		return fmt.Errorf("the writer is at %d behind a long record, and has cleared up to %d at once", w.tail, w.cleared)
	case payload >= longBytes != (w.Long() > before.Long()):
		return fmt.Errorf("a payload of %d bytes: %d were long before, %d are now", payload, before.Long(), w.Long())
	}
	return nil
}

// take reads one record and compares it.
func (p *pair) take() error {
	got := p.r.Same()
	var err error
	if got == nil {
		got, err = p.r.Next()
	}
	switch {
	case err != nil:
		return err
	case got == nil && len(p.queue) == 0:
		return nil
	case got == nil || len(p.queue) == 0:
		return fmt.Errorf("got %d bytes (nil: %v) while %d records are in the ring", len(got), got == nil, len(p.queue))
	case !bytes.Equal(got, p.queue[0]):
		return fmt.Errorf("got %d bytes, want the %d of the record that is next", len(got), len(p.queue[0]))
	}
	p.lent, p.copies, p.queue = append(p.lent, got), append(p.copies, p.queue[0]), p.queue[1:]
	return nil
}

// release checks that what was lent has not changed, and ends the loans.
func (p *pair) release() error {
	for i := range p.lent {
		if !bytes.Equal(p.lent[i], p.copies[i]) {
			return fmt.Errorf("a record of %d bytes changed while it was lent", len(p.lent[i]))
		}
	}
	p.lent, p.copies = nil, nil
	p.r.Release()
	return nil
}

// lay sets a trap at every place for a word in the part of the space that neither holds a record nor was cleared
// for the next words.
func (p *pair) lay() {
	for at := max(p.w.cleared, p.w.tail); at < p.w.limit; at += unitBytes {
		if at&p.w.mask < p.w.lap {
			*(*uint64)(p.w.at(at)) = trap
		}
	}
}

// check holds the ring against what must always be so between two calls.
func (p *pair) check() error {
	if word := *(*uint64)(p.w.at(p.w.tail)); word != 0 {
		return fmt.Errorf("the next word is %#x before it is written", word)
	}
	if p.r.Ready() != (len(p.queue) != 0) {
		return fmt.Errorf("Ready is %v while %d records are in the ring", p.r.Ready(), len(p.queue))
	}
	return nil
}

// room checks that a ring whose records have all been taken has room for another.
func (p *pair) room(n int) error {
	for len(p.queue) != 0 {
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
					t.Fatalf("the writer came to %d of %d only", p.w.tail, space)
				}
			})
		}
	}
}

// TestRingConfined is the same where the writer is confined to the beginning of the space, and to more of it from time to time.
// Nothing is touched behind that.
func TestRingConfined(t *testing.T) {
	const space = 32768
	for seed := range uint64(24) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, space))
			p := newPair(t, make([]byte, RingBytes(space)))
			behind := p.mem[spaceStart:]
			for _, lap := range []int{4096, 4096 + 5*unitBytes, 8192, 16384, space}[seed%4:] {
				p.w.Confine(lap)
				for i := range 1500 {
					if err := p.step(rnd, []int{60, 1000, MaxRecord(lap)}[seed%3]); err != nil {
						t.Fatalf("confined to %d, step %d: %v", lap, i, err)
					}
				}
				if err := p.room(MaxRecord(lap)); err != nil {
					t.Fatalf("confined to %d: %v", lap, err)
				}
				if i := bytes.IndexFunc(behind[lap:], func(r rune) bool { return r != 0 }); i >= 0 {
					t.Fatalf("confined to %d, and touched %d bytes behind that", lap, i)
				}
			}
		})
	}
}

// step does one of the calls by chance.
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
		p.w.Fetch()
	default:
		err = p.room(rnd.IntN(p.w.max + 1))
	}
	if err != nil {
		return err
	}
	if rnd.IntN(4) == 0 {
		p.lay()
	}
	return p.check()
}

// TestRingNeverStuck: whatever record follows whatever row of records, there is room for it once these have been
// released.
func TestRingNeverStuck(t *testing.T) {
	const space = 4096
	mem, saved := make([]byte, RingBytes(space)), make([]byte, RingBytes(space))
	lengths := []int{0}
	for n := unitBytes - wordBytes; n < MaxRecord(space); n += unitBytes {
		lengths = append(lengths, n)
	}
	lengths = append(lengths, MaxRecord(space))
	for _, a := range lengths {
		clear(mem)
		p := newPair(t, mem)
		for range 12 {
			if err := p.room(a); err != nil {
				t.Fatalf("row of %d bytes: %v", a, err)
			}
			p.lay()
			copy(saved, mem)
			w, r, queue := *p.w, *p.r, p.queue
			for _, b := range lengths {
				if err := p.room(b); err != nil {
					t.Fatalf("after a row of %d bytes: %v", a, err)
				}
				copy(mem, saved)
				*p.w, *p.r, p.queue = w, r, queue
			}
		}
	}
}

func TestRingFull(t *testing.T) {
	for _, n := range []int{0, 8, 56, 57, 200, MaxRecord(4096)} {
		p := newPair(t, make([]byte, RingBytes(4096)))
		for lap := range 5 {
			for ok := true; ok; {
				var err error
				if ok, err = p.put(n, 0); err != nil {
					t.Fatal(err)
				}
			}
			if in := len(p.queue); in == 0 || uint64(in)*recordSize(n) > 4096 {
				t.Fatalf("%d records of %d bytes went into 4096 in lap %d", in, n, lap)
			}
			if err := p.room(n); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestRingLong: a long payload is told from a short one also where both simply follow.
func TestRingLong(t *testing.T) {
	p := newPair(t, make([]byte, RingBytes(32768)))
	for _, n := range []int{0, longBytes - 1, longBytes} {
		if ok, err := p.put(n, 0); !ok || err != nil {
			t.Errorf("%d bytes: %v, %v", n, ok, err)
		}
	}
}

// TestRingFetch: after long records Fetch makes room for as many ready, but not where the time of writing them is of interest.
func TestRingFetch(t *testing.T) {
	const n, row = 3000, 2
	p := newPair(t, make([]byte, RingBytes(16384)))
	for i := range 2 * sampleEvery {
		if p.w.Behind() {
			t.Fatalf("round %d: behind after Fetch", i)
		}
		for range row {
			if ok, err := p.put(n, 16); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		if !p.w.Behind() {
			t.Fatalf("round %d: not behind after long records", i)
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
		p.w.copier.far = i%3 == 0
		p.w.Fetch()
		lap := p.w.tail&^p.w.mask + p.w.lap
		switch next := p.w.tail + row*recordSize(n) + unitBytes; {
		case p.w.Far(), p.w.Long()%sampleEvery < samples, p.w.Long()%sampleEvery > sampleEvery-row:
			if p.w.cleared != before {
				t.Fatalf("round %d: fetched up to %d, which was not to be", i, p.w.cleared)
			}
		case p.w.cleared != min(next, p.w.limit, lap) || next > p.w.limit+unitBytes:
			t.Fatalf("round %d: the writer at %d fetched up to %d, want %d", i, p.w.tail, p.w.cleared, next)
		}
		if err := p.check(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRingTurn: short records of a reader that keeps up stay within the first part of the space, and come back there after
// others.
func TestRingTurn(t *testing.T) {
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
			if at := p.w.tail & p.w.mask; i > 500 && at > p.w.turn+keptBytes {
				t.Fatalf("after %d short records the writer is at %d", i, at)
			}
		}
		from := p.w.tail
		for range 40 {
			pass(3000)
			pass(100)
		}
		if p.w.tail-from > 40*(recordSize(3000)+recordSize(100)) {
			t.Fatalf("from %d to %d: long records do not go all the way around", from, p.w.tail)
		}
	}
}

// TestRingReady: where records of one length up to 1 KiB meet a reader that keeps up, all that the next one needs is done when
// the last one has been published: there is room as far as the writer knows, and words are clear, also where it is to turn.
func TestRingReady(t *testing.T) {
	for n := 0; n <= 1<<10; n += 32 {
		p := newPair(t, make([]byte, RingBytes(1<<20)))
		size := recordSize(16 + n)
		turns := 0
		for i := range 4000 {
			before, zero := *p.w, true
			for at := uint64(0); at < size+unitBytes; at += unitBytes {
				zero = zero && *(*uint64)(p.w.at(at)) == 0
			}
			if ok, err := p.put(16+n, 16); !ok || err != nil {
				t.Fatal(ok, err)
			}
			end, start := before.tail+size, before.start(before.tail)
			turned := p.w.tail == start
			switch {
			case i < 1000: // the first lap, and the way to the first turn
			case before.cleared < end+unitBytes || before.limit < end+unitBytes:
				t.Fatalf("%d bytes, record %d to %d: cleared up to %d, room up to %d", n, i, end, before.cleared, before.limit)
			case end&p.w.mask >= p.w.turn && !turned:
				t.Fatalf("%d bytes, record %d ends at %d, and the next one is there as well", n, i, end)
			case turned && before.limit < start+size+unitBytes:
				t.Fatalf("%d bytes, record %d at %d: room up to %d, and a turn to %d", n, i, before.tail, before.limit, start)
			case turned && !zero:
				t.Fatalf("%d bytes, record %d at %d: a turn to %d, where words are not clear", n, i, before.tail, start)
			case turned:
				turns++
			}
			if err := errors.Join(p.take(), p.release()); err != nil {
				t.Fatal(err)
			}
		}
		if turns == 0 {
			t.Errorf("%d bytes: no turn", n)
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
	if err := p.room(MaxRecord(4096)); err != nil {
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

// TestRingBeside runs the sides at the same time.
func TestRingBeside(t *testing.T) {
	const count = 16000
	for _, space := range []int{4096, 16384} {
		for _, most := range []int{40, 500, MaxRecord(space)} {
			mem := make([]byte, RingBytes(space))
			in, out := newPair(t, mem), newPair(t, mem)
			if most <= MaxRecord(space/2) {
				in.w.Confine(space / 2)
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
			p.w.Confine(int(p.w.mask + 1))
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

// lengthOf is the length of record i: by chance, or in rows of short ones, or all the same.
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
		p.queue = append(p.queue, p.record(lengthOf(i, most, sizes)))
		for !p.r.Ready() {
			if err := p.release(); err != nil { // who keeps records waits for ever
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
	n := testing.AllocsPerRun(1000, func() {
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
	if len(words) < 64 {
		t.Fatalf("%d words", len(words))
	}
	for i := range words {
		words[i] = ^uint64(0)
	}
	if err := p.room(100); err != nil {
		t.Fatal(err)
	}
	if err := p.room(MaxRecord(4096)); err != nil {
		t.Errorf("words disturb the ring: %v", err)
	}
}
