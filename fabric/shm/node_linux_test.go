package shm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/internal/fdpass"
	ring "github.com/ibrun/ibrun/internal/shm"
	"github.com/ibrun/ibrun/internal/waittest"
)

// node returns the transport of n peers of one node.
func node(n int) *Transport {
	tr := new(Transport)
	rand.Read(tr.Key[:])
	for i := range n {
		tr.Local = append(tr.Local, i)
	}
	return tr
}

// openAll opens all peers of a node in this process.
func openAll(t *testing.T, tr *Transport) []*Domain {
	t.Helper()
	return openEach(t, slices.Repeat([]fabric.Transport{tr}, len(tr.Local)))
}

// openEach opens all peers of a node in this process, each with its own transport.
func openEach(t *testing.T, transports []fabric.Transport) []*Domain {
	t.Helper()
	n := len(transports)
	ds, errs := make([]*Domain, n), make([]error, n)
	var all sync.WaitGroup
	for i, tr := range transports {
		all.Go(func() {
			var d fabric.Domain
			if d, errs[i] = tr.Open(t.Context(), &fabric.Config{Self: i, Size: n}); errs[i] == nil {
				ds[i] = d.(*Domain)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, d := range ds {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return ds
}

// leftovers lists what could stay behind: descriptors of this process, and files in memory.
func leftovers(t *testing.T) string {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir("/dev/shm")
	if err != nil {
		t.Fatal(err)
	}
	s := fmt.Sprint(len(fds), " descriptors")
	for _, f := range files {
		if strings.Contains(f.Name(), "ibrun") {
			s += ", " + f.Name()
		}
	}
	return s
}

// checkLeftovers fails the test if it leaves anything behind.
func checkLeftovers(t *testing.T) {
	t.Helper()
	before := leftovers(t)
	t.Cleanup(func() {
		if after := leftovers(t); after != before {
			t.Errorf("before: %s; after: %s", before, after)
		}
	})
}

func connect(t *testing.T, d *Domain, to int) fabric.Endpoint {
	t.Helper()
	e, err := d.Connect(to, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// next polls until there is an event.
func next(d fabric.Domain) (fabric.Event, error) {
	var evs [1]fabric.Event
	for {
		if n, err := d.Poll(evs[:]); n != 0 || err != nil {
			return evs[0], err
		}
		runtime.Gosched()
	}
}

// TestConformanceFenced runs the suite as on a kernel without membarrier.
func TestConformanceFenced(t *testing.T) {
	fabrictest.Run(t, func(_ testing.TB, n int) []fabric.Transport {
		tr := node(n)
		tr.fenced = true
		all := make([]fabric.Transport, n)
		for i := range all {
			all[i] = tr
		}
		return all
	})
}

// TestIdle: peers that do not communicate take a page each.
func TestIdle(t *testing.T) {
	checkLeftovers(t)
	ds := openAll(t, node(64))
	var st unix.Stat_t
	if err := unix.Fstat(ds[0].seg.FD(), &st); err != nil || st.Blocks*512 >= 1<<20 {
		t.Errorf("64 idle peers take %d bytes, %v", st.Blocks*512, err)
	}
}

// TestOpenTimeout: Open returns an error if another peer does not open in time.
func TestOpenTimeout(t *testing.T) {
	for self := range 2 {
		t.Run(fmt.Sprint(self), func(t *testing.T) {
			checkLeftovers(t)
			timeout := errors.New("timeout")
			ctx, cancel := context.WithCancelCause(t.Context())
			opened := make(chan error, 1)
			go func() {
				d, err := node(2).Open(ctx, &fabric.Config{Self: self, Size: 2})
				if d != nil {
					err = fmt.Errorf("it has returned %v", d)
				}
				opened <- err
			}()
			waittest.Nothing(t, 20*time.Millisecond, "Open has not waited for the other peer", opened)
			cancel(timeout)
			if err := waittest.Receive(t, "Open returns", opened); !errors.Is(err, timeout) {
				t.Error(err)
			}
		})
	}
}

// TestForeignMessages: descriptors that no correct peer sends are closed, and do not affect the peers.
func TestForeignMessages(t *testing.T) {
	checkLeftovers(t)
	ds := openAll(t, node(2))
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(s)
	good, err := ring.Create(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	before := leftovers(t)
	to := int(ds[0].senders.fds[1].Load())
	send := func(msg []byte, rights ...int) {
		t.Helper()
		if err := unix.Sendmsg(to, msg, unix.UnixRights(rights...), nil, 0); err != nil {
			t.Error(err)
		}
		if err := ds[1].disarm(); err != nil && len(rights) <= fdpass.Max { // which reads the messages
			t.Error(err)
		}
	}
	named := func(id uint64) []byte { return appendSegment(nil, id) }
	many := slices.Repeat([]int{s}, fdpass.Max+40) // more than there is room for
	for _, msg := range [][]byte{
		nil, {'W'}, {segmentByte}, named(5)[:8], append(named(5), 1), make([]byte, 9), make([]byte, 5000), named(5),
	} {
		send(msg, s)
		send(msg, good.FD(), good.FD())
		send(msg, many...)
	}
	if len(ds[1].sock.descriptors) != 0 {
		t.Errorf("kept descriptors: %v", ds[1].sock.descriptors)
	}
	send(named(7), good.FD())
	send(named(7), good.FD()) // replaces the first
	if fd, ok, err := ds[1].sock.takeSegment(7); !ok || err != nil || unix.Close(fd) != nil {
		t.Errorf("take: %v, %v", ok, err)
	}
	for id := range uint64(2 * maxKept) { // more than are requested
		send(named(id+100), good.FD())
	}
	if n := len(ds[1].sock.descriptors); n != maxKept {
		t.Errorf("kept %d descriptors", n)
	}
	for id, fd := range ds[1].sock.descriptors {
		delete(ds[1].sock.descriptors, id)
		unix.Close(fd)
	}
	if after := leftovers(t); after != before {
		t.Errorf("before: %s; after: %s", before, after)
	}
}

// TestNoNames: while peers meet and afterwards, no socket has a name that another user could send to.
func TestNoNames(t *testing.T) {
	ds := openAll(t, node(3))
	sockets, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{} // inodes of sockets with names
	for line := range strings.Lines(string(sockets)) {
		if f := strings.Fields(line); len(f) > 7 {
			named[f[6]] = true
		}
	}
	for i, d := range ds {
		fds := []int{d.sock.fd}
		for to := range ds {
			fds = append(fds, int(d.senders.fds[to].Load()))
		}
		for _, fd := range fds {
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK || named[fmt.Sprint(st.Ino)] {
				t.Errorf("peer %d: descriptor %d: mode %o, named %v, %v", i, fd, st.Mode, named[fmt.Sprint(st.Ino)], err)
			}
		}
	}
}

// TestCorruptRing: a peer that writes invalid bytes into a ring is lost; the other peers are not affected.
func TestCorruptRing(t *testing.T) {
	checkLeftovers(t)
	ds := openAll(t, node(3))
	bad, good := connect(t, ds[0], 1), connect(t, ds[2], 1)
	back := connect(t, ds[1], 0)
	if err := errors.Join(bad.Send([]byte{1}, nil), good.Send([]byte{2}, nil)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if ev, err := next(ds[1]); err != nil || ev.Kind != fabric.Message {
			t.Fatal(ev, err)
		}
	}
	mem := bad.(*endpoint).mem
	for at := 4096; at < len(mem); at += 8 {
		binary.NativeEndian.PutUint64(mem[at:], 0xDEAD)
	}
	ev, err := next(ds[1])
	if err != nil || ev.Kind != fabric.PeerDown || ev.Peer != 0 || !errors.Is(ev.Err, fabric.ErrCorrupt) ||
		!errors.Is(ev.Err, fabric.ErrPeerDown) || errors.Is(ev.Err, fabric.ErrPeerClosed) {
		t.Fatal(ev, err)
	}
	if err := back.Send([]byte{1}, nil); !errors.Is(err, fabric.ErrPeerDown) {
		t.Errorf("to a peer that is lost: %v", err)
	}
	if err := good.Send([]byte{3}, nil); err != nil {
		t.Fatal(err)
	}
	if ev, err := next(ds[1]); err != nil || ev.Kind != fabric.Message || ev.Data[0] != 3 {
		t.Fatal(ev, err)
	}
}

// TestCorruptHead is TestCorruptRing for the word that the reader writes.
func TestCorruptHead(t *testing.T) {
	ds := openAll(t, node(2))
	e := connect(t, ds[0], 1)
	binary.NativeEndian.PutUint64(e.(*endpoint).mem, 1<<40)
	var err error
	for err == nil {
		err = e.Send(make([]byte, 3000), nil)
	}
	if !errors.Is(err, fabric.ErrCorrupt) {
		t.Fatal(err)
	}
	if err := e.Send([]byte{1}, nil); !errors.Is(err, fabric.ErrPeerDown) {
		t.Errorf("the next: %v", err)
	}
	if ev, err := next(ds[0]); err != nil || ev.Kind != fabric.PeerDown || !errors.Is(ev.Err, fabric.ErrCorrupt) {
		t.Error(ev, err)
	}
}

// TestCorruptControl writes random bytes into the control blocks, while peers continue as far as they can.
func TestCorruptControl(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			checkLeftovers(t)
			rnd := mathrand.New(mathrand.NewPCG(seed, 0))
			ds := openAll(t, node(3))
			var evs [4]fabric.Event
			for range 300 {
				binary.NativeEndian.PutUint64(ds[0].controlMem[rnd.IntN(len(ds[0].controlMem)/8)*8:], rnd.Uint64())
				d, to := ds[rnd.IntN(3)], rnd.IntN(3)
				// Errors may be returned or not. The test is that nothing panics.
				if e, err := d.Connect(to, nil); err == nil {
					_ = e.Send(make([]byte, rnd.IntN(500)), nil)
				}
				if _, _, err := d.Arm(); err != nil {
					t.Fatal(err)
				}
				d.Wake(to)
				if _, err := d.Poll(evs[:]); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestEndpointCloseDrops: a peer that has closed its endpoint receives nothing more from the other peer.
func TestEndpointCloseDrops(t *testing.T) {
	ds := openAll(t, node(2))
	there, back := connect(t, ds[0], 1), connect(t, ds[1], 0)
	if err := errors.Join(back.Send([]byte{1}, nil), there.Close(), back.Send([]byte{2}, nil)); err != nil {
		t.Fatal(err)
	}
	var evs [4]fabric.Event
	for range 3 {
		if n, err := ds[0].Poll(evs[:]); n != 0 || err != nil {
			t.Fatal(evs[:n], err)
		}
	}
	if ev, err := next(ds[1]); err != nil || ev.Kind != fabric.PeerDown {
		t.Error(ev, err)
	}
	if err := ds[0].Close(); err != nil || ds[0].Words(1, false) != nil || ds[0].Words(1, true) != nil {
		t.Errorf("words of a closed domain, %v", err)
	}
}

// TestCloseBeforePoll: a peer that closes before it has found its connections is reported to those peers nevertheless.
func TestCloseBeforePoll(t *testing.T) {
	ds := openAll(t, node(2))
	there := connect(t, ds[0], 1)
	if err := errors.Join(there.Send([]byte{1}, nil), ds[1].Close()); err != nil {
		t.Fatal(err)
	}
	var evs [1]fabric.Event
	n, err := ds[0].Poll(evs[:])
	if n != 1 || err != nil || evs[0].Kind != fabric.PeerDown || !errors.Is(evs[0].Err, fabric.ErrPeerClosed) {
		t.Errorf("%d events, %+v, %v", n, evs[0], err)
	}
	if err := there.Send([]byte{2}, nil); !errors.Is(err, fabric.ErrPeerClosed) {
		t.Errorf("send afterwards: %v", err)
	}
}

// closingSource has zero bytes. It closes the domain of the receiver while they are packed into the ring, which uses only Pack.
type closingSource struct {
	fabric.Source
	receiver fabric.Domain
	err      error
}

func (s *closingSource) Pack(dst []byte, _ int64) int {
	s.err = s.receiver.Close()
	clear(dst)
	return len(dst)
}

// TestClosesMeanwhile: a Send during which the peer closes is not an error, since the peer may have read the message. An event
// reports that the peer has closed, and the next Send returns ErrPeerClosed.
func TestClosesMeanwhile(t *testing.T) {
	ds := openAll(t, node(2))
	there := connect(t, ds[0], 1)
	src := &closingSource{receiver: ds[1]}
	if err := there.(fabric.Gatherer).SendFrom([]byte{0}, src, 0, 3); err != nil || src.err != nil {
		t.Error(err, src.err)
	}
	if err := there.Send([]byte{4}, nil); !errors.Is(err, fabric.ErrPeerClosed) {
		t.Error(err)
	}
	if ev, err := next(ds[0]); err != nil || ev.Kind != fabric.PeerDown || !errors.Is(ev.Err, fabric.ErrPeerClosed) {
		t.Error(ev, err)
	}
}

// TestSendToClosed: a Send that is the first to find a peer closed returns ErrPeerClosed.
func TestSendToClosed(t *testing.T) {
	for name, fill := range map[string]bool{"room": false, "full": true} {
		t.Run(name, func(t *testing.T) {
			ds := openAll(t, node(2))
			there := connect(t, ds[0], 1)
			for fill {
				if err := there.Send(make([]byte, 1000), nil); err == fabric.ErrAgain {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
			if err := ds[1].Close(); err != nil {
				t.Fatal(err)
			}
			if err := there.Send(make([]byte, 1000), nil); !errors.Is(err, fabric.ErrPeerClosed) {
				t.Error(err)
			}
		})
	}
}

// TestSegmentNotCreated: if the first peer cannot create a segment, the others do not wait for it.
func TestSegmentNotCreated(t *testing.T) {
	checkLeftovers(t)
	ds := openAll(t, node(2))
	peers := []int{0, 1}
	if _, err := ds[1].Segment(9, peers, 4096); err != fabric.ErrAgain {
		t.Fatal(err)
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	_, err := ds[0].Segment(9, peers, 4096)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, unix.EFBIG) {
		t.Errorf("at the first: %v", err)
	}
	if _, err := ds[1].Segment(9, peers, 4096); !errors.Is(err, errNotCreated) {
		t.Errorf("at the second: %v", err)
	}
	first, err := ds[0].Segment(9, peers, 4096)
	if err != nil {
		t.Fatal(err)
	}
	second, err := ds[1].Segment(9, peers, 4096)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Allocate(first.Bytes()[:8]); err != nil {
		t.Fatal(err)
	}
	if first.Bytes()[7] = 1; second.Bytes()[7] != 1 {
		t.Error("the segment is not shared")
	}
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Error(err)
	}
}

// sharedKB returns how much shared memory this process has in its page table, in KiB.
func sharedKB(t *testing.T) (kb int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/smaps_rollup") // exact, unlike /proc/self/status
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(b), "Pss_Shmem:")
	if _, err := fmt.Sscanf(line, "%d kB", &kb); err != nil {
		t.Fatal(err)
	}
	return kb
}

// TestSegmentAllocates: a segment takes memory when it is allocated. On kernels that cannot do that for a mapping, all of it has
// been allocated.
func TestSegmentAllocates(t *testing.T) {
	checkLeftovers(t)
	d := openAll(t, node(1))[0]
	const size = 8 << 20
	before := sharedKB(t)
	for _, populate := range []func([]byte) error{d.populate, func([]byte) error { return unix.EINVAL }} {
		d.populate = populate
		s, err := d.Segment(9, []int{0}, size)
		if err != nil {
			t.Fatal(err)
		}
		b := s.Bytes()
		if err := s.Allocate(b[size/2-1 : size/2+1]); err != nil {
			t.Fatal(err)
		}
		b[size/2-1], b[size/2] = 1, 1
		if got := sharedKB(t) - before; !s.(*sharedSegment).whole && got > 64 {
			t.Errorf("two bytes take %d KiB", got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Allocate(b[:1]); err != fabric.ErrClosed && !s.(*sharedSegment).whole {
			t.Errorf("after Close: %v", err)
		}
	}
	short := errors.New("no memory")
	d.populate = func([]byte) error { return short }
	if s, err := d.Segment(9, []int{0}, size); !errors.Is(err, short) {
		t.Errorf("without memory: %v, %v", s, err)
	}
}

// TestOffsets: no two rings share a page, and no ring shares one with a control block.
func TestOffsets(t *testing.T) {
	for _, n := range []int{1, 2, 3, 64} {
		end := int64(n * controlBytes)
		for i := range n {
			for j := range n {
				if at := ringOffset(i, j, n); at != end || at%4096 != 0 || ringBytes(largeSpace) < ring.RingBytes(largeSpace) {
					t.Fatalf("ring from %d to %d of %d is at %d, the one before ends at %d", i, j, n, at, end)
				}
				end += int64(ringBytes(largeSpace))
			}
		}
		if segmentSize(n) != end {
			t.Errorf("%d peers: %d bytes, the last ring ends at %d", n, segmentSize(n), end)
		}
	}
}
