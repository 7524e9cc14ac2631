package regcache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

// device is a registrar that lets only so many bytes be pinned, and knows what was in memory when it was registered.
type device struct {
	mu    sync.Mutex
	most  int
	used  int
	wrong error // what Register fails with, whatever it is asked for
	next  uint64
	known map[uint64]pinned
}

type pinned struct {
	bytes int
	first uint64 // the first word of the memory, which names the object in these tests
}

// errPinned and errLost are what a device says that has no room, or is gone.
var (
	errPinned = fmt.Errorf("limit of pinned memory reached: %w", syscall.ENOMEM)
	errLost   = errors.New("the device is gone")
)

func newDevice(most int) *device { return &device{most: most, known: map[uint64]pinned{}} }

func (d *device) Register(b []byte) (fabric.Region, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wrong != nil {
		return fabric.Region{}, d.wrong
	}
	if d.used+len(b) > d.most {
		return fabric.Region{}, errPinned
	}
	from, _ := bounds(b)
	d.next++
	p := pinned{bytes: len(b)}
	if len(b) >= 8 {
		p.first = binary.LittleEndian.Uint64(b)
	}
	d.known[d.next] = p
	d.used += len(b)
	return fabric.Region{Remote: fabric.RemoteKey{Addr: uint64(from), Key: d.next}, Local: d.next}, nil
}

func (d *device) Deregister(r fabric.Region) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, ok := d.known[r.Local]
	if !ok {
		return fmt.Errorf("key %d is not registered", r.Local)
	}
	delete(d.known, r.Local)
	d.used -= p.bytes
	return nil
}

func (d *device) pinned() (regions, bytes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.known), d.used
}

func hold(t *testing.T, c *Cache, b []byte) Memory {
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
	m := hold(t, c, b[:100])
	inner := hold(t, c, b[4000:])
	if m.Remote.Key != inner.Remote.Key || c.Stats().Misses != 1 {
		t.Errorf("a part of a registered object was registered again: %+v", c.Stats())
	}
	release(t, c, m)
	release(t, c, inner)
	release(t, c, hold(t, c, b))
	release(t, c, hold(t, c, nil))
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

// TestLower: a range that begins before what is registered is registered, and both are found.
func TestLower(t *testing.T) {
	c := New(newDevice(1<<30), 1<<20)
	b := make([]byte, 5000)
	for range 3 {
		for _, from := range []int{4000, 2000, 3000, 0} {
			release(t, c, hold(t, c, b[from:from+1000]))
		}
	}
	if s := c.Stats(); s.Misses != 3 {
		t.Errorf("%+v", s)
	}
	runtime.KeepAlive(b)
}

// TestFreed: memory that the collector has freed is deregistered, and its addresses are not found again.
func TestFreed(t *testing.T) {
	d := newDevice(1 << 30)
	c := New(d, 1<<30)
	for range 20 {
		release(t, c, hold(t, c, make([]byte, 64<<10)))
	}
	last := make([]byte, 100)
	for c.Stats().Freed == 0 {
		runtime.GC()
		release(t, c, hold(t, c, last))
	}
	if n, _ := d.pinned(); n > 20 {
		t.Errorf("%d registrations are left", n)
	}
	runtime.KeepAlive(last)
}

// TestLeastRecent: the bound is kept, the registration used last stays, and what is held is never undone.
func TestLeastRecent(t *testing.T) {
	d := newDevice(1 << 30)
	c := New(d, 10000)
	var bs [6][]byte
	for i := range bs {
		bs[i] = make([]byte, 4000)
	}
	held := hold(t, c, bs[0])
	for _, b := range bs {
		release(t, c, hold(t, c, b))
	}
	before := c.Stats().Misses
	again := hold(t, c, bs[0])
	release(t, c, hold(t, c, bs[5]))
	if s := c.Stats(); s.Misses != before || s.Evicted == 0 || again.Remote != held.Remote {
		t.Errorf("%+v", s)
	}
	release(t, c, held)
	release(t, c, again)
	if _, bytes := d.pinned(); bytes > 10000 {
		t.Errorf("%d bytes are pinned", bytes)
	}
	runtime.KeepAlive(bs)
}

// TestNoRoom: before the system's limit is an error, everything that nobody holds is undone.
func TestNoRoom(t *testing.T) {
	c := New(newDevice(10000), 1<<30)
	a, b := make([]byte, 6000), make([]byte, 6000)
	release(t, c, hold(t, c, a))
	m := hold(t, c, b)
	if _, err := c.Acquire(a); !errors.Is(err, ErrNoRoom) || !errors.Is(err, errPinned) {
		t.Errorf("beyond the limit: %v", err)
	}
	release(t, c, m)
	release(t, c, hold(t, c, a))
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
}

// TestWrong: only lack of room is called so, and only for it is anything undone.
func TestWrong(t *testing.T) {
	d := newDevice(10000)
	c := New(d, 1<<30)
	a := make([]byte, 6000)
	release(t, c, hold(t, c, a))
	for _, x := range []struct {
		err         error
		room, unfit bool
	}{{errLost, false, false}, {fmt.Errorf("read-only: %w", syscall.EFAULT), false, true}} {
		d.wrong = x.err
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

// TestForeign: memory that the runtime does not own is registered for one use only, unless it is kept.
func TestForeign(t *testing.T) {
	d := newDevice(1 << 30)
	c := New(d, 1<<30)
	b, err := unix.Mmap(-1, 0, 64<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	for range 2 {
		release(t, c, hold(t, c, b))
		if n, _ := d.pinned(); n != 0 {
			t.Fatal("mapped memory stays registered")
		}
	}
	kept, err := c.Register(b)
	if err != nil {
		t.Fatal(err)
	}
	release(t, c, hold(t, c, b[100:200]))
	if s := c.Stats(); s.Misses != 3 || s.Hits != 1 {
		t.Errorf("%+v", s)
	}
	release(t, c, kept)
	if n, _ := d.pinned(); n != 0 {
		t.Error("memory stays registered that nobody keeps")
	}
}

// TestParts: of one object there are never more registrations than the runtime can bear.
func TestParts(t *testing.T) {
	d := newDevice(1 << 40)
	c := New(d, 1<<40)
	b := make([]byte, 1000)
	for i := 999; i >= 0; i-- {
		release(t, c, hold(t, c, b[i:]))
	}
	if n, _ := d.pinned(); n > shared {
		t.Errorf("%d registrations of one object", n)
	}
	runtime.KeepAlive(b)
}

// TestRecycled allocates, registers and forgets buffers from several goroutines, while the collector runs all the time: a
// registration is never found for another object than the one it was made for.
func TestRecycled(t *testing.T) {
	d := newDevice(64 << 20)
	c := New(d, 1<<20)
	end := time.Now().Add(time.Second)
	if os.Getenv("IBRUN_SOAK") != "" {
		end = time.Now().Add(time.Minute)
	}
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			var mine [16][]byte
			for n := uint64(1); time.Now().Before(end); n++ {
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
				p, ok := d.known[m.Local.Local]
				d.mu.Unlock()
				if want := binary.LittleEndian.Uint64(mine[i]); !ok || p.first != want {
					t.Errorf("object %#x has the registration of %#x (%v)", want, p.first, ok)
					return
				}
				if err := c.Release(m); err != nil {
					t.Error(err)
					return
				}
				if n%512 == 0 {
					runtime.GC()
				}
			}
		})
	}
	workers.Wait()
	s := c.Stats()
	t.Logf("%+v", s)
	if s.Freed == 0 || s.Hits == 0 {
		t.Error("nothing was freed, or nothing found")
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
	release(t, c, hold(t, c, b))
	if n := testing.AllocsPerRun(100, func() { release(t, c, hold(t, c, b)) }); n != 0 {
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
