package tcp

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

const (
	// strangers is how many connections may be in the middle of a greeting that came from outside. Further ones wait in the
	// kernel, or take the place of the oldest if that has shown no hurry.
	strangers = 128
	hurry     = 100 * time.Millisecond
	// patience is how long a greeting from outside may take.
	patience = 5 * time.Second
	// A caller that is connected waits for a word that many times as long as for the connection: the process that it has called
	// may be stopped for a while, or about to take the call.
	callerPatience = 4
	// acceptBatch is how many connections are taken at once, so that a flood of them does not keep the program.
	acceptBatch = 16
	// A call that has failed is repeated after firstBackoff, and then after twice as long each time.
	firstBackoff = 10 * time.Millisecond
	lastBackoff  = 500 * time.Millisecond
)

// phase says what a greeting waits for.
type phase uint8

const (
	connecting phase = iota // the kernel
	hearing                 // hello, on the called side
	challenged              // challenge, on the calling side
	proving                 // proof, on the called side
	judged                  // verdict, on the calling side
)

// expects is how many bytes come next.
var expects = [...]int{hearing: helloBytes, challenged: challengeBytes, proving: macBytes, judged: macBytes}

// greeting is a connection that is not one between peers yet.
type greeting struct {
	fd    int
	slot  int       // in Domain.greetings
	e     *endpoint // that calls; nil on the called side
	phase phase
	t     transcript
	have  int
	buf   [helloBytes]byte
	since time.Time
	until time.Time
}

// welcome takes connections from a listener.
func (d *Domain) welcome(listener int) error {
	for range acceptBatch {
		if d.foreign >= strangers && !d.evict() {
			return nil
		}
		fd, err := accept(listener)
		switch err {
		case nil:
		case unix.EAGAIN:
			return nil
		case unix.ECONNABORTED, unix.EINTR, unix.EPROTO, unix.EPERM:
			continue // whoever called has gone
		default: // descriptors or memory are short: who calls will call again
			return nil
		}
		if _, err := d.greet(fd, nil, hearing, unix.EPOLLIN); err != nil {
			return err
		}
	}
	return nil
}

// evict gives up the oldest greeting from outside, unless it is young. It reports whether there is room now.
func (d *Domain) evict() bool {
	var oldest *greeting
	for _, g := range d.greetings {
		if g != nil && g.e == nil && (oldest == nil || g.since.Before(oldest.since)) {
			oldest = g
		}
	}
	if oldest != nil && time.Since(oldest.since) < hurry {
		return false
	}
	d.dismiss(oldest)
	return true
}

// greet begins to watch a connection.
func (d *Domain) greet(fd int, e *endpoint, p phase, events uint32) (*greeting, error) {
	now := time.Now()
	g := &greeting{fd: fd, e: e, phase: p, since: now, until: now.Add(min(patience, d.timeout))}
	g.slot = slices.Index(d.greetings, nil)
	if g.slot < 0 {
		g.slot = len(d.greetings)
		d.greetings = append(d.greetings, nil)
	}
	if err := d.watch(unix.EPOLL_CTL_ADD, fd, events, tagGreeting, g.slot); err != nil {
		return nil, errors.Join(err, shut(fd))
	}
	d.greetings[g.slot] = g
	if e == nil {
		d.foreign++
	}
	d.hasten()
	return g, nil
}

// release forgets a greeting, but not its socket.
func (d *Domain) release(g *greeting) {
	d.greetings[g.slot] = nil
	if g.e == nil {
		d.foreign--
	} else {
		g.e.attempt = nil
	}
}

// dismiss ends a greeting.
func (d *Domain) dismiss(g *greeting) {
	d.release(g)
	d.note(shut(g.fd))
}

// advance takes what has come for a greeting.
func (d *Domain) advance(g *greeting) {
	err := d.step(g)
	if err == nil || err == fabric.ErrAgain || d.greetings[g.slot] != g {
		return
	}
	e := g.e
	d.dismiss(g)
	if e != nil {
		e.trouble = err
		d.call(e)
	}
}

func (d *Domain) step(g *greeting) error {
	if g.phase == connecting {
		return d.open(g)
	}
	n, errno := receive(g.fd, g.buf[g.have:expects[g.phase]])
	switch {
	case errno == unix.EAGAIN:
		return fabric.ErrAgain
	case errno != 0:
		return errno
	case n == 0:
		return errors.New("the connection was closed while greeting: another job, or a peer that is leaving")
	}
	if g.have += n; g.have < expects[g.phase] {
		return fabric.ErrAgain
	}
	b := g.buf[:g.have]
	g.have = 0
	switch g.phase {
	case hearing:
		return d.hear(g, b)
	case challenged:
		if err := g.t.parseChallenge(b, &d.key); err != nil {
			return err
		}
		g.e.give = time.Now().Add(d.timeout) // it is the peer: whatever goes wrong now may be tried again
		return g.say(judged, g.t.mac(&d.key, labelProof))
	case proving:
		return d.judge(g, b)
	}
	return d.judgement(g, b)
}

// say sends a message of a greeting, which always fits, and says what is to come next.
func (g *greeting) say(next phase, b []byte) error {
	n, errno := send(g.fd, b)
	if errno == 0 && n < len(b) {
		errno = unix.EAGAIN
	}
	if errno != 0 {
		return fmt.Errorf("greet: %w", errno)
	}
	g.phase = next
	return nil
}

// open says hello once the kernel has connected.
func (d *Domain) open(g *greeting) error {
	if err := connected(g.fd); err != nil {
		return err
	}
	if err := d.watch(unix.EPOLL_CTL_MOD, g.fd, unix.EPOLLIN, tagGreeting, g.slot); err != nil {
		return err
	}
	g.until = time.Now().Add(callerPatience * d.timeout)
	g.t.hello = hello{from: uint32(d.self), to: uint32(g.e.peer), size: uint32(len(d.peers))}
	rand.Read(g.t.hello.nonce[:])
	return g.say(challenged, g.t.message(&d.key))
}

// hear handles a hello.
func (d *Domain) hear(g *greeting, b []byte) (err error) {
	if g.t, err = parseHello(b, &d.key, uint32(d.self), uint32(len(d.peers))); err != nil {
		return err
	}
	rand.Read(g.t.nonce[:])
	return g.say(proving, append(g.t.nonce[:], g.t.mac(&d.key, labelChallenge)...))
}

// judge handles a proof: who calls is a peer. Whether this is the connection of the two depends on what else there is.
func (d *Domain) judge(g *greeting, b []byte) error {
	if !g.t.says(&d.key, labelProof, b) {
		return fmt.Errorf("%w: a stranger", fabric.ErrCorrupt)
	}
	e := d.endpoint(int(g.t.hello.from))
	switch {
	case e.state == over || e.state == leaving:
		return fabric.ErrPeerDown
	case e.state == up, e.attempt != nil && d.self < int(e.peer): // that call wins
		if err := g.say(proving, g.t.mac(&d.key, labelBusy)); err != nil {
			return err
		}
		d.dismiss(g)
		return nil
	}
	if err := g.say(proving, g.t.mac(&d.key, labelWelcome)); err != nil {
		return err
	}
	if e.attempt != nil {
		d.dismiss(e.attempt)
	}
	return d.establish(g, e)
}

// judgement handles a verdict.
func (d *Domain) judgement(g *greeting, b []byte) error {
	switch {
	case g.t.says(&d.key, labelWelcome, b):
		return d.establish(g, g.e)
	case g.t.says(&d.key, labelBusy, b):
		e := g.e
		d.dismiss(g)
		e.place = len(e.places) // nothing was wrong with this one; the peer's own call should come
		d.call(e)
		return nil
	}
	return fmt.Errorf("%w: not a verdict", fabric.ErrCorrupt)
}

// establish makes a greeting the connection of a peer.
func (d *Domain) establish(g *greeting, e *endpoint) error {
	if err := tune(g.fd, d.timeout, d.window); err != nil {
		return err
	}
	if err := d.watch(unix.EPOLL_CTL_MOD, g.fd, unix.EPOLLIN, tagPeer, int(e.peer)); err != nil {
		return err
	}
	d.release(g)
	e.fd, e.state, e.trouble, e.places = g.fd, up, nil, nil
	d.heat(e)
	e.request()
	return nil
}

// call begins the next attempt to reach a peer, or says when.
func (d *Domain) call(e *endpoint) {
	for ; e.place < len(e.places); e.place++ {
		fd, err := connect(e.places[e.place])
		if err == nil {
			e.attempt, err = d.greet(fd, e, connecting, unix.EPOLLOUT)
		}
		if err == nil {
			e.place++
			return
		}
		e.trouble = err
	}
	e.place = 0
	e.backoff = min(max(firstBackoff, 2*e.backoff), lastBackoff)
	e.retry = time.Now().Add(e.backoff)
	d.hasten()
}

// expire ends what has taken too long, and repeats calls.
func (d *Domain) expire(now time.Time) (busy bool) {
	for _, g := range d.greetings {
		if g == nil {
			continue
		}
		busy = true
		// Whoever has sent its proof may have been welcomed already, and must not take it back.
		if now.After(g.until) && g.phase != judged {
			e := g.e
			d.dismiss(g)
			if e != nil {
				e.trouble = unix.ETIMEDOUT
				d.call(e)
			}
		}
	}
	for _, e := range d.known {
		if e.state != calling {
			continue
		}
		busy = true
		switch {
		case now.After(e.give) && (e.attempt == nil || e.attempt.phase == connecting):
			e.lose(fmt.Errorf("tcp: peer %d: %w: it cannot be reached within %v: %w", e.peer, fabric.ErrPeerDown, d.timeout,
				cmp.Or(e.trouble, error(unix.ETIMEDOUT))))
		case e.attempt == nil && now.After(e.retry):
			d.call(e)
		}
	}
	return busy
}
