package tcp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

// link is a connection between two threads: send and receive a message of a fixed size, spinning.
type link struct {
	send    [2]func() error
	receive [2]func() error
}

// socketLink is the reference for the others: two connected sockets and the system calls.
func socketLink(b *testing.B, size int) link {
	listener, port, err := listen(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		b.Fatal(err)
	}
	near, err := connect(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port))
	if err != nil {
		b.Fatal(err)
	}
	far, _, err := accept(listener)
	for err == unix.EAGAIN {
		far, _, err = accept(listener)
	}
	if err = errors.Join(err, closeFD(listener)); err != nil {
		b.Fatal(err)
	}
	var l link
	for i, fd := range []int{near, far} {
		if err := setOptions(fd, time.Minute, 0); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := closeFD(fd); err != nil {
				b.Error(err)
			}
		})
		out, in := make([]byte, size), make([]byte, size)
		l.send[i] = func() error { return moveAll(out, func(b []byte) (int, unix.Errno) { return send(fd, b) }) }
		l.receive[i] = func() error { return moveAll(in, func(b []byte) (int, unix.Errno) { return receive(fd, b) }) }
	}
	return l
}

// moveAll repeats a call until it has moved all of b.
func moveAll(b []byte, move func([]byte) (int, unix.Errno)) error {
	for len(b) > 0 {
		n, errno := move(b)
		if errno != 0 && errno != unix.EAGAIN {
			return errno
		}
		b = b[n:]
	}
	return nil
}

// pair opens two domains over loopback and connects them.
func pair(tb testing.TB) (ds [2]fabric.Domain, es [2]fabric.Endpoint) {
	tr := &Transport{Interfaces: []string{"127.0.0.1/32"}}
	rand.Read(tr.Key[:])
	for i := range ds {
		d, err := tr.Open(tb.Context(), &fabric.Config{Self: i, Size: 2})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			if err := d.Close(); err != nil {
				tb.Error(err)
			}
		})
		ds[i] = d
	}
	for i := range es {
		var err error
		if es[i], err = ds[i].Connect(1-i, ds[1-i].Addr()); err != nil {
			tb.Fatal(err)
		}
	}
	var evs [1]fabric.Event
	for i := range es {
		for err := es[i].Send(nil, nil); err != nil; err = es[i].Send(nil, nil) {
			_, err0 := ds[0].Poll(nil)
			_, err1 := ds[1].Poll(nil)
			if err != fabric.ErrAgain || err0 != nil || err1 != nil {
				tb.Fatal(err, err0, err1)
			}
		}
		for n := 0; n == 0; {
			var err error
			if n, err = ds[1-i].Poll(evs[:]); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return ds, es
}

// sendLink is a link with messages that are copied out of the receive buffer, as programs do.
func sendLink(b *testing.B, size int) link {
	ds, es := pair(b)
	var l link
	for i := range ds {
		var header [16]byte
		out, in, evs := make([]byte, size-len(header)), make([]byte, size), make([]fabric.Event, 32)
		part := min(len(out), maxSend-len(header))
		l.send[i] = func() error {
			for rest := out; ; {
				n := min(part, len(rest))
				switch err := es[i].Send(header[:], rest[:n]); err {
				case nil:
					if rest = rest[n:]; len(rest) == 0 {
						return nil
					}
				case fabric.ErrAgain:
					if _, err := ds[i].Poll(nil); err != nil {
						return err
					}
				default:
					return err
				}
			}
		}
		var received []fabric.Event
		l.receive[i] = func() error {
			for got := 0; got < len(out); {
				if len(received) == 0 {
					n, err := ds[i].Poll(evs)
					if err != nil {
						return err
					}
					received = evs[:n]
					continue
				}
				got += copy(in[got:], received[0].Data[len(header):])
				received = received[1:]
			}
			return nil
		}
	}
	return l
}

// readLink is a link with rendezvous: a request to send, a Read, and an acknowledgement.
func readLink(b *testing.B, size int) link {
	ds, es := pair(b)
	var l link
	var source, sink [2]fabric.Region
	var out, in [2][]byte
	for i := range ds {
		out[i], in[i] = make([]byte, size), make([]byte, size)
		var err1, err2 error
		source[i], err1 = ds[i].Register(out[i])
		sink[i], err2 = ds[i].Register(in[i])
		if err := errors.Join(err1, err2); err != nil {
			b.Fatal(err)
		}
	}
	for i := range ds {
		var rts [56]byte
		evs := make([]fabric.Event, 32)
		wait := func(kind fabric.EventKind) error {
			for {
				n, err := ds[i].Poll(evs[:1])
				if err != nil {
					return err
				}
				if n == 1 {
					if evs[0].Kind != kind || evs[0].Err != nil {
						return fmt.Errorf("unexpected event %+v", evs[0])
					}
					return nil
				}
			}
		}
		l.send[i] = func() error { return errors.Join(es[i].Send(rts[:], nil), wait(fabric.Message)) }
		l.receive[i] = func() error {
			if err := wait(fabric.Message); err != nil {
				return err
			}
			if _, err := es[i].Read(in[i], sink[i], source[1-i].Remote, 1); err != nil {
				return err
			}
			return errors.Join(wait(fabric.Done), es[i].Send(rts[:24], nil))
		}
	}
	return l
}

// runBoth runs f on two threads at the same time.
func runBoth(b *testing.B, f func(i int) error) time.Duration {
	errs := make(chan error, 2)
	began := time.Now()
	for i := range 2 {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			errs <- f(i)
		}()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// latency returns half a round-trip time.
func (l link) latency(b *testing.B, iterations int) time.Duration {
	return runBoth(b, func(i int) error {
		var err error
		for n := 0; n < iterations && err == nil; n++ {
			if n%2 == i {
				err = l.send[i]()
			} else {
				err = l.receive[i]()
			}
		}
		return err
	}) / time.Duration(iterations)
}

// stream returns the time per message of many in one direction.
func (l link) stream(b *testing.B, iterations int) time.Duration {
	return runBoth(b, func(i int) error {
		var err error
		for n := 0; n < iterations && err == nil; n++ {
			if i == 0 {
				err = l.send[0]()
			} else {
				err = l.receive[1]()
			}
		}
		return err
	}) / time.Duration(iterations)
}

// BenchmarkAgainstSockets compares with bare system calls on two sockets, spinning. It measures them alternately, so that the
// load of the machine affects all of them alike; the best result of each counts. A ratio above 1 is faster than the sockets.
func BenchmarkAgainstSockets(b *testing.B) {
	for _, size := range []int{8 + 16, 1 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20} {
		for name, measure := range map[string]func(link, *testing.B, int) time.Duration{
			"Latency": link.latency, "Stream": link.stream,
		} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				links := []link{socketLink(b, size), sendLink(b, size)}
				if size >= 16<<10 {
					links = append(links, readLink(b, size))
				}
				best := slices.Repeat([]time.Duration{time.Hour}, len(links))
				for b.Loop() {
					for i, l := range links {
						best[i] = min(best[i], measure(l, b, min(300, 64<<20/size)))
					}
				}
				for i, what := range []string{"sockets", "send", "read"}[:len(links)] {
					b.ReportMetric(float64(best[i].Nanoseconds()), what+"-ns")
					if i > 0 {
						b.ReportMetric(float64(best[0])/float64(best[i]), what+"-ratio")
					}
				}
			})
		}
	}
}
