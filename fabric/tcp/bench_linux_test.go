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

// line is a way between two threads: send and receive a message of a fixed size, spinning.
type line struct {
	send    [2]func() error
	receive [2]func() error
}

// bare is the line that all others are measured against: two connected sockets and the system calls.
func bare(b *testing.B, size int) line {
	listener, port, err := listen(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		b.Fatal(err)
	}
	near, err := connect(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port))
	if err != nil {
		b.Fatal(err)
	}
	far, err := accept(listener)
	for err == unix.EAGAIN {
		far, err = accept(listener)
	}
	if err = errors.Join(err, shut(listener)); err != nil {
		b.Fatal(err)
	}
	var l line
	for i, fd := range []int{near, far} {
		if err := tune(fd, time.Minute, 0); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := shut(fd); err != nil {
				b.Error(err)
			}
		})
		out, in := make([]byte, size), make([]byte, size)
		l.send[i] = func() error { return all(out, func(b []byte) (int, unix.Errno) { return send(fd, b) }) }
		l.receive[i] = func() error { return all(in, func(b []byte) (int, unix.Errno) { return receive(fd, b) }) }
	}
	return l
}

// all repeats a call until it has moved all of b.
func all(b []byte, move func([]byte) (int, unix.Errno)) error {
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

// copied is a line of messages that are copied out of the loan, as programs do.
func copied(b *testing.B, size int) line {
	ds, es := pair(b)
	var l line
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
		var came []fabric.Event
		l.receive[i] = func() error {
			for got := 0; got < len(out); {
				if len(came) == 0 {
					n, err := ds[i].Poll(evs)
					if err != nil {
						return err
					}
					came = evs[:n]
					continue
				}
				got += copy(in[got:], came[0].Data[len(header):])
				came = came[1:]
			}
			return nil
		}
	}
	return l
}

// read is a line of messages that are announced, read, and acknowledged.
func read(b *testing.B, size int) line {
	ds, es := pair(b)
	var l line
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
		var offer [56]byte
		evs := make([]fabric.Event, 32)
		wait := func(kind fabric.EventKind) error {
			for {
				n, err := ds[i].Poll(evs[:1])
				if err != nil {
					return err
				}
				if n == 1 {
					if evs[0].Kind != kind || evs[0].Err != nil {
						return fmt.Errorf("%+v came", evs[0])
					}
					return nil
				}
			}
		}
		l.send[i] = func() error { return errors.Join(es[i].Send(offer[:], nil), wait(fabric.Message)) }
		l.receive[i] = func() error {
			if err := wait(fabric.Message); err != nil {
				return err
			}
			if _, err := es[i].Read(in[i], sink[i], source[1-i].Remote, 1); err != nil {
				return err
			}
			return errors.Join(wait(fabric.Done), es[i].Send(offer[:24], nil))
		}
	}
	return l
}

// together runs f on two threads at once.
func together(b *testing.B, f func(i int) error) time.Duration {
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

// latency is half a round trip.
func (l line) latency(b *testing.B, turns int) time.Duration {
	return together(b, func(i int) error {
		var err error
		for turn := 0; turn < turns && err == nil; turn++ {
			if turn%2 == i {
				err = l.send[i]()
			} else {
				err = l.receive[i]()
			}
		}
		return err
	}) / time.Duration(turns)
}

// stream is what one message takes of many in one direction.
func (l line) stream(b *testing.B, turns int) time.Duration {
	return together(b, func(i int) error {
		var err error
		for turn := 0; turn < turns && err == nil; turn++ {
			if i == 0 {
				err = l.send[0]()
			} else {
				err = l.receive[1]()
			}
		}
		return err
	}) / time.Duration(turns)
}

// BenchmarkAgainstSockets compares with two sockets that are spun on with bare system calls, in turns, so that whatever else
// the machine does hits all alike; the best round of each counts. A ratio above 1 is faster than the sockets.
func BenchmarkAgainstSockets(b *testing.B) {
	for _, size := range []int{8 + 16, 1 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20} {
		for name, measure := range map[string]func(line, *testing.B, int) time.Duration{
			"Latency": line.latency, "Stream": line.stream,
		} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				lines := []line{bare(b, size), copied(b, size)}
				if size >= 16<<10 {
					lines = append(lines, read(b, size))
				}
				best := slices.Repeat([]time.Duration{time.Hour}, len(lines))
				for b.Loop() {
					for i, l := range lines {
						best[i] = min(best[i], measure(l, b, min(300, 64<<20/size)))
					}
				}
				for i, what := range []string{"sockets", "send", "read"}[:len(lines)] {
					b.ReportMetric(float64(best[i].Nanoseconds()), what+"-ns")
					if i > 0 {
						b.ReportMetric(float64(best[0])/float64(best[i]), what+"-ratio")
					}
				}
			})
		}
	}
}
