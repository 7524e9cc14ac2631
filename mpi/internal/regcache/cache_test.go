package regcache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/internal/soaktest"
)

// device is a registrar with a limit on pinned bytes. It records what was in memory when it was registered.
type device struct {
	mu      sync.Mutex
	limit   int
	largest int // bytes of a region, 0: no limit
	used    int
	err     error // of every Register, unless nil
	next    uint64
	keys    map[uint64]pinned
}

type pinned struct {
	bytes int
	first uint64 // the first word of the memory, which identifies the object in these tests
}

// errPinned is the error of a device at its limit, errLost that of a device that is gone.
var (
	errPinned = fmt.Errorf("limit of pinned memory reached: %w", syscall.ENOMEM)
	errLost   = errors.New("the device is gone")
)

func newDevice(limit int) *device { return &device{limit: limit, keys: map[uint64]pinned{}} }

func (d *device) Register(b []byte) (fabric.Region, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return fabric.Region{}, d.err
	}
	if d.largest != 0 && len(b) > d.largest {
		return fabric.Region{}, syscall.EOPNOTSUPP
	}
	if d.used+len(b) > d.limit {
		return fabric.Region{}, errPinned
	}
	from, _ := bounds(b)
	d.next++
	p := pinned{bytes: len(b)}
	if len(b) >= 8 {
		p.first = binary.LittleEndian.Uint64(b)
	}
	d.keys[d.next] = p
	d.used += len(b)
	return fabric.Region{Remote: fabric.RemoteKey{Addr: uint64(from), Key: d.next}, Local: d.next}, nil
}

func (d *device) Deregister(r fabric.Region) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, ok := d.keys[r.Local]
	if !ok {
		return fmt.Errorf("key %d is not registered", r.Local)
	}
	delete(d.keys, r.Local)
	d.used -= p.bytes
	return nil
}

func (d *device) pinned() (regions, bytes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.keys), d.used
}

func acquire(t *testing.T, c *Cache, b []byte) Memory {
	t.Helper()
	m, err := c.Acquire(b)
	if err != nil {
		t.Fatal(err)
	}
	if from, _ := bounds(b); len(b) > 0 && m.Remote.Addr != uint64(from) {
		t.Fatalf("address %#x of memory at %#x", m.Remote.Addr, from)
	}
	return m
}

func release(t *testing.T, c *Cache, m Memory) {
	t.Helper()
	if err := c.Release(m); err != nil {
		t.Fatal(err)
	}
}

func TestHit(t *testing.T) {
	d := newDevice(1 << 30)
	c := New(d, 1<<20)
	b := make([]byte, 5000)
	m := acquire(t, c, b[:4000])
	inner := acquire(t, c, b[4000:])
	if m.Remote.Key != inner.Remote.Key || c.Stats().Misses != 1 {
		t.Errorf("a part of a registered object has been registered again: %+v", c.Stats())
	}
	release(t, c, m)
	release(t, c, inner)
	release(t, c, acquire(t, c, b))
	release(t, c, acquire(t, c, nil))
	if s := c.Stats(); s.Misses != 1 || s.Hits != 2 || s.Bytes != 5000 {
		t.Errorf("%+v", s)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if n, bytes := d.pinned(); n != 0 || bytes != 0 {
		t.Errorf("%d regions of %d bytes are left", n, bytes)
	}
	runtime.KeepAlive(b)
}

// TestLower: a range that begins before a registered one gets a registration of its own, and both are found.
func TestLower(t *testing.T) {
	c := New(newDevice(1<<30), 1<<20)
	const part = 16 * pageBytes
	b := make([]byte, 5*part)
	for range 3 {
		for _, from := range []int{4, 2, 3, 0} {
			release(t, c, acquire(t, c, b[from*part:][:part]))
		}
	}
	if s := c.Stats(); s.Misses != 3 {
		t.Errorf("%+v", s)
	}
	runtime.KeepAlive(b)
}

// TestFreed: memory that the collector has freed is deregistered, and its addresses are not found any more.
func TestFreed(t *testing.T) {
	d := newDevice(1 << 30)
	c := New(d, 1<<30)
	for range 20 {
		release(t, c, acquire(t, c, make([]byte, 64<<10)))
	}
	last := make([]byte, 100)
	for c.Stats().Freed == 0 {
		runtime.GC()
		release(t, c, acquire(t, c, last))
	}
	if n, _ := d.pinned(); n > 20 {
		t.Errorf("%d registrations are left", n)
	}
	runtime.KeepAlive(last)
}

// TestLeastRecent: the bound is respected, the registration used last stays, and those in use are never evicted.
func TestLeastRecent(t *testing.T) {
	d := newDevice(1 << 30)
	c := New(d, 10000)
	var bs [6][]byte
	for i := range bs {
		bs[i] = make([]byte, 4000)
	}
	inUse := acquire(t, c, bs[0])
	for _, b := range bs {
		release(t, c, acquire(t, c, b))
	}
	before := c.Stats().Misses
	again := acquire(t, c, bs[0])
	release(t, c, acquire(t, c, bs[5]))
	if s := c.Stats(); s.Misses != before || s.Evicted == 0 || again.Remote != inUse.Remote {
		t.Errorf("%+v", s)
	}
	release(t, c, inUse)
	release(t, c, again)
	if _, bytes := d.pinned(); bytes > 10000 {
		t.Errorf("%d bytes are pinned", bytes)
	}
	runtime.KeepAlive(bs)
}

// TestNoRoom: before the system's limit is reported as an error, all registrations that are not in use are evicted.
func TestNoRoom(t *testing.T) {
	c := New(newDevice(10000), 1<<30)
	a, b := make([]byte, 6000), make([]byte, 6000)
	release(t, c, acquire(t, c, a))
	m := acquire(t, c, b)
	if _, err := c.Acquire(a); !errors.Is(err, ErrNoRoom) || !errors.Is(err, errPinned) {
		t.Errorf("beyond the limit: %v", err)
	}
	release(t, c, m)
	release(t, c, acquire(t, c, a))
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
}

// TestErrors: only a lack of room is ErrNoRoom, and only a lack of room evicts registrations.
func TestErrors(t *testing.T) {
	d := newDevice(10000)
	c := New(d, 1<<30)
	a := make([]byte, 6000)
	release(t, c, acquire(t, c, a))
	for _, x := range []struct {
		err         error
		room, unfit bool
	}{{errLost, false, false}, {fmt.Errorf("read-only: %w", syscall.EFAULT), false, true}, {syscall.ENODATA, false, true}} {
		d.err = x.err
		_, err := c.Acquire(make([]byte, 100))
		if !errors.Is(err, x.err) || errors.Is(err, ErrNoRoom) != x.room || errors.Is(err, ErrNotRegistrable) != x.unfit {
			t.Errorf("%v became %v", x.err, err)
		}
	}
	if s := c.Stats(); s.Evicted != 0 || s.Bytes != 6000 {
		t.Errorf("%+v", s)
	}
	runtime.KeepAlive(a)
}

// TestForeign: memory that the runtime does not own is registered for one use only, except by Register.
func TestForeign(t *testing.T) {
	d := newDevice(1 << 30)
	c := New(d, 1<<30)
	b, err := unix.Mmap(-1, 0, 64<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	for range 2 {
		release(t, c, acquire(t, c, b))
		if n, _ := d.pinned(); n != 0 {
			t.Fatal("mapped memory stays registered after its use")
		}
	}
	registered, err := c.Register(b)
	if err != nil {
		t.Fatal(err)
	}
	release(t, c, acquire(t, c, b[100:200]))
	if s := c.Stats(); s.Misses != 3 || s.Hits != 1 {
		t.Errorf("%+v", s)
	}
	release(t, c, registered)
	if n, _ := d.pinned(); n != 0 {
		t.Error("memory stays registered after its last Release")
	}
}

// TestParts: the number of registrations of one object is bounded.
func TestParts(t *testing.T) {
	d := newDevice(1 << 40)
	c := New(d, 1<<40)
	const parts, stride = 10 * maxPerObject, 4 * pageBytes // so large that no part touches the registration of another
	b := make([]byte, parts*stride)
	for i := parts - 1; i >= 0; i-- {
		release(t, c, acquire(t, c, b[i*stride:][:pageBytes]))
	}
	if n, _ := d.pinned(); n != maxPerObject {
		t.Errorf("%d registrations of one object, want %d", n, maxPerObject)
	}
	runtime.KeepAlive(b)
}

// TestUsed: a message pins itself and at most 2 MiB more, however large its buffer is.
func TestUsed(t *testing.T) {
	for _, used := range []int{1, 100, 64 << 10, 1 << 20, 2 << 20, 10 << 20} {
		d := newDevice(1 << 40)
		c := New(d, 1<<40)
		b := make([]byte, 64<<20)
		release(t, c, acquire(t, c, b[:used]))
		if n, bytes := d.pinned(); n != 1 || bytes < used || bytes > used+maxSpare+pageBytes || bytes > 2*used+pageBytes {
			t.Errorf("a message of %d bytes: %d registrations of %d bytes", used, n, bytes)
		}
		runtime.KeepAlive(b)
	}
}

// TestLargestRegion: a message that the device can register is registered, although it cannot register as much as the cache would
// like to. A longer one is not registrable.
func TestLargestRegion(t *testing.T) {
	d := newDevice(1 << 40)
	d.largest = 3 << 20
	c := New(d, 1<<40)
	b := make([]byte, 64<<20)
	release(t, c, acquire(t, c, b[:d.largest]))
	if n, bytes := d.pinned(); n != 1 || bytes != d.largest {
		t.Errorf("%d registrations of %d bytes", n, bytes)
	}
	if _, err := c.Acquire(b[d.largest:][:d.largest+1]); !errors.Is(err, ErrNotRegistrable) {
		t.Errorf("a longer message: %v", err)
	}
	runtime.KeepAlive(b)
}

// TestGrowing: a buffer that is used with growing lengths, or part by part, is registered few times. Not more is pinned than
// twice what was used, and what was used once is found again.
func TestGrowing(t *testing.T) {
	const step, steps = 64 << 10, 1024
	for name, part := range map[string]func(b []byte, i int) []byte{
		"growing": func(b []byte, i int) []byte { return b[:(i+1)*step] },
		"parts":   func(b []byte, i int) []byte { return b[i*step:][:step] },
	} {
		d := newDevice(1 << 40)
		c := New(d, 1<<40)
		b := make([]byte, 2*steps*step)
		for i := range steps {
			release(t, c, acquire(t, c, part(b, i)))
			if _, bytes := d.pinned(); bytes > 2*(i+1)*step+pageBytes {
				t.Fatalf("%s: %d bytes are pinned when %d were used", name, bytes, (i+1)*step)
			}
		}
		misses := c.Stats().Misses
		for i := range steps {
			release(t, c, acquire(t, c, part(b, i)))
		}
		if s := c.Stats(); misses > 20 || s.Misses != misses {
			t.Errorf("%s: registered %d times by %d messages, and again %d times: %+v", name, misses, steps, s.Misses-misses, s)
		}
		runtime.KeepAlive(b)
	}
}

// TestGrowingInUse: a registration that a new one covers stays as long as it is used, and no longer.
func TestGrowingInUse(t *testing.T) {
	d := newDevice(1 << 40)
	c := New(d, 1<<40)
	b := make([]byte, 8<<20)
	short := acquire(t, c, b[:1<<20])
	release(t, c, acquire(t, c, b[:4<<20]))
	if n, _ := d.pinned(); n != 2 {
		t.Fatalf("%d registrations", n)
	}
	release(t, c, short)
	release(t, c, acquire(t, c, b))
	if n, bytes := d.pinned(); n != 1 || bytes != len(b) {
		t.Errorf("%d registrations of %d bytes", n, bytes)
	}
	runtime.KeepAlive(b)
}

// TestRecycled allocates, registers and drops buffers in several goroutines, while the collector runs: a registration is never
// found for another object than its own. It lasts at least a second, and until registrations have been freed and found.
func TestRecycled(t *testing.T) {
	d := newDevice(64 << 20)
	c := New(d, 1<<20)
	begun, least := time.Now(), time.Second
	if soaktest.On() {
		least = time.Minute
	}
	seen := func() bool {
		s := c.Stats()
		return s.Freed != 0 && s.Hits != 0
	}
	more := func() bool {
		took := time.Since(begun)
		return took < least || took < 2*time.Minute && !seen()
	}
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			var mine [16][]byte
			for n := uint64(1); n%128 != 0 || more(); n++ {
				i := r.IntN(len(mine))
				if b := mine[i]; b == nil || r.IntN(3) == 0 {
					mine[i] = make([]byte, 8+r.IntN(1<<(4+r.IntN(14))))
					binary.LittleEndian.PutUint64(mine[i], uint64(w)<<48|n)
				}
				m, err := c.Acquire(mine[i])
				if err != nil {
					t.Error(err)
					return
				}
				d.mu.Lock()
				p, ok := d.keys[m.Local.Local]
				d.mu.Unlock()
				if want := binary.LittleEndian.Uint64(mine[i]); !ok || p.first != want {
					t.Errorf("object %#x has the registration of %#x (%v)", want, p.first, ok)
					return
				}
				if err := c.Release(m); err != nil {
					t.Error(err)
					return
				}
				if n%128 == 0 {
					runtime.GC()
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%+v", c.Stats())
	if !seen() {
		t.Error("no registration has been freed, or none found")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if n, bytes := d.pinned(); n != 0 || bytes != 0 {
		t.Errorf("%d regions of %d bytes are left", n, bytes)
	}
}

func TestAllocs(t *testing.T) {
	c := New(newDevice(1<<30), 1<<30)
	b := make([]byte, 1<<16)
	release(t, c, acquire(t, c, b))
	if n := alloctest.Count(100, func() { release(t, c, acquire(t, c, b)) }); n != 0 {
		t.Errorf("%v allocations for a buffer that is registered", n)
	}
}

func BenchmarkHit(b *testing.B) {
	c := New(newDevice(1<<30), 1<<30)
	buf := make([]byte, 1<<16)
	for b.Loop() {
		m, err := c.Acquire(buf)
		if err == nil {
			err = c.Release(m)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
