package tcp

import (
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/fabric"
)

// window is how many Reads may be under way on one connection; the others wait at the reader.
const window = 32

// reads are those that this peer wants, oldest first.
type reads struct {
	all   []reading
	asked int // how many of them the peer knows of
	head  int // of all: those before are done
}

type reading struct {
	dst   []byte // still to come
	src   fabric.RemoteKey
	token uint64
}

func (r *reads) waiting() int { return len(r.all) - r.head }

// longStream is how much has to be missing of a Read for acknowledgements to be asked for at once: it costs a call, and what is
// shorter is there before it pays.
const longStream = 1 << 20

// long tells whether a long stream is to come: the rest of a long Read, or a whole one with others behind it.
func (r *reads) long() bool {
	left := len(r.oldest().dst)
	return left > longStream || left == longStream && r.waiting() > 1
}

func (r *reads) oldest() *reading { return &r.all[r.head] }

// want tells whether one of them is of src.
func (r *reads) want(src fabric.RemoteKey) bool {
	return slices.ContainsFunc(r.all[r.head:], func(x reading) bool { return x.src == src })
}

func (r *reads) push(x reading) {
	if r.head > 0 && len(r.all) == cap(r.all) {
		n := copy(r.all, r.all[r.head:])
		clear(r.all[n:])
		r.all, r.head = r.all[:n], 0
	}
	r.all = append(r.all, x)
}

func (r *reads) pop() {
	r.all[r.head] = reading{}
	r.head++
	if r.head == len(r.all) {
		r.all, r.head = r.all[:0], 0
	}
}

// serving are the Reads that the peer wants, oldest first.
type serving struct {
	queue       *[window]served // nil until the first
	first, many int
	// more tells that what goes now is not the end of a Read; a Push goes only where no Read is served. The kernel may fill its
	// last packet with what follows then, by which 4 MiB went a fifth faster. Where the next Read is what follows it must not:
	// who waits for the end of this one would get it late, and 1 MiB went a fifth slower.
	more bool
}

type served struct {
	key  uint64 // 0: refused
	rest []byte // still to be sent
}

// Read asks the peer to stream its memory.
func (e *endpoint) Read(dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error) {
	d := e.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.state == leaving || e.state == over {
		return false, e.why
	}
	if s := d.regions.slot(local.Local); s == nil || len(dst) > len(s.b) {
		return false, fmt.Errorf("tcp: read %d bytes into memory that is not registered", len(dst))
	}
	if e.fd < 0 && e.state == up {
		b, ok := d.regions.find(request{src, uint64(len(dst))})
		if !ok {
			return false, errRefused(e.peer)
		}
		copy(dst, b)
		return true, nil
	}
	if e.awaited(src) {
		return e.readPushed(dst, token), nil
	}
	e.reads.push(reading{dst, src, token})
	e.request()
	return false, nil
}

// errRefused is what a Read ends with that names memory which is not registered.
func errRefused(peer int32) error {
	return fmt.Errorf("tcp: read from peer %d: it has no such memory registered", peer)
}

// request tells the peer of Reads that it does not know of yet, if it can be told.
func (e *endpoint) request() {
	if e.state != up {
		return
	}
	r := &e.reads
	for r.asked < min(r.waiting(), window) {
		next := &r.all[r.head+r.asked]
		q := request{next.src, uint64(len(next.dst))}
		r.asked++ // before the answer could come
		if !e.control(kindRead, q.append(e.d.asking[:0])) {
			r.asked--
			return
		}
	}
}

// data handles a kindData of n bytes, of which b, or its beginning, have come.
func (e *endpoint) data(b []byte, n int) error {
	if e.reads.asked == 0 {
		return fmt.Errorf("%w: bytes that nobody has read", fabric.ErrCorrupt)
	}
	dst := e.reads.oldest().dst
	if n > len(dst) || n == 0 && len(dst) != 0 {
		return fmt.Errorf("%w: %d bytes for a read of %d", fabric.ErrCorrupt, n, len(dst))
	}
	if n == 0 {
		e.finish(nil)
		return nil
	}
	e.land = dst[:n]
	e.landed(copy(e.land, b))
	return nil
}

// landed says that the next n bytes are in their place.
func (e *endpoint) landed(n int) {
	e.land = e.land[n:]
	if p := &e.pushes; p.lands {
		if len(e.land) == 0 {
			p.lands = false
			if p.ends {
				e.ended(p.token, nil)
			}
		}
		return
	}
	r := e.reads.oldest()
	r.dst = r.dst[n:]
	if len(r.dst) == 0 {
		e.finish(nil)
	}
}

// refused handles kindRefusal.
func (e *endpoint) refused() error {
	if e.reads.asked == 0 {
		return fmt.Errorf("%w: refuses what nobody has read", fabric.ErrCorrupt)
	}
	e.finish(errRefused(e.peer))
	return nil
}

// finish ends the oldest Read.
func (e *endpoint) finish(err error) {
	e.ended(e.reads.oldest().token, err)
	e.reads.pop()
	e.reads.asked--
	e.request()
}

// ended has the program told of the end of a Read.
func (e *endpoint) ended(token uint64, err error) {
	e.d.done = append(e.d.done, fabric.Event{Kind: fabric.Done, Peer: e.peer, Token: token, Err: err})
}

// failReads ends all Reads.
func (e *endpoint) failReads(err error) {
	e.land = nil
	if p := &e.pushes; p.lands {
		p.lands = false
		if p.ends {
			e.ended(p.token, err)
		}
	}
	for e.reads.waiting() > 0 {
		e.ended(e.reads.oldest().token, err)
		e.reads.pop()
	}
	e.reads = reads{}
}

// wanted handles kindRead.
func (e *endpoint) wanted(b []byte) error {
	q, _ := parseRequest(b)
	s := &e.serving
	if s.queue == nil {
		s.queue = new([window]served)
	}
	if s.many == window {
		return fmt.Errorf("%w: reads more than %d blocks at once", fabric.ErrCorrupt, window)
	}
	var x served
	if mem, ok := e.d.regions.find(q); ok {
		x = served{q.src.Key, mem}
	}
	s.queue[(s.first+s.many)%window] = x
	s.many++
	e.d.await(e)
	return nil
}

// serve makes the next part of what the peer reads the body to be sent. It reports false if there is none.
func (e *endpoint) serve() bool {
	s := &e.serving
	if s.many == 0 {
		return false
	}
	x := &s.queue[s.first]
	e.head = e.header[:headerBytes]
	if x.key == 0 || e.d.regions.slot(x.key) == nil {
		putFrame(e.head, kindRefusal, 0)
		x.rest = nil
	} else {
		n := min(len(x.rest), chunkBytes)
		putFrame(e.head, kindData, n)
		e.body, e.key, x.rest = x.rest[:n], x.key, x.rest[n:]
	}
	s.more = len(x.rest) > 0
	if !s.more {
		*x = served{}
		s.first = (s.first + 1) % window
		s.many--
	}
	return true
}
