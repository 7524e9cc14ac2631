package proto

import "time"

// When goroutines have been woken together, usually each of them sends next. On a transport whose sends cost a system call, their
// messages are kept until the last of them has sent, or until the next poll, and leave together. That delays a message if a
// goroutine computes after its send, so messages are not kept for a while after such a delay was seen.

const (
	// longestDelay is how long messages may be kept before that counts as a delay.
	longestDelay = 200 * time.Microsecond
	// After a delay, so many messages are sent without being kept; twice as many after each further delay, up to the second.
	firstPause = 64
	maxPause   = 1 << 16
)

// combining is the state of messages that are sent together.
type combining struct {
	peers []*peer   // to which messages are kept
	began time.Time // when the first of these was kept
	pause int       // number of messages to be sent without being kept
	next  int       // pause after the next delay
}

// combines reports whether a message may have to wait for others, or others wait for it.
func (e *Engine) combines() bool { return e.waiters.woken != 0 || len(e.combining.peers) != 0 }

// sendCombined is Send of the endpoint of a peer. It keeps the message if other goroutines are about to send, and otherwise sends
// it together with those that are kept.
func (e *Engine) sendCombined(p *peer, header, payload []byte) (err error) {
	c := &e.combining
	switch {
	case p.deferrer == nil:
		err = p.ep.Send(header, payload)
	case c.pause != 0:
		c.pause--
		return p.ep.Send(header, payload)
	default:
		if err = p.deferrer.SendLater(header, payload); err == nil {
			c.add(p)
		}
	}
	if e.waiters.woken == 0 {
		c.flush()
	}
	return err
}

// add must be called when a message to p is kept.
func (c *combining) add(p *peer) {
	if p.combining {
		return
	}
	if len(c.peers) == 0 {
		c.began = time.Now()
	}
	p.combining = true
	c.peers = append(c.peers, p)
}

// flush sends the messages that are kept.
func (c *combining) flush() {
	if len(c.peers) == 0 {
		return
	}
	for _, p := range c.peers {
		p.deferrer.Flush()
		p.combining = false
	}
	c.peers = c.peers[:0]
	c.adapt(time.Since(c.began))
}

// adapt chooses whether the next messages are kept. kept is how long the last ones were.
func (c *combining) adapt(kept time.Duration) {
	if kept <= longestDelay {
		c.next = max(c.next-1, firstPause)
		return
	}
	c.pause = max(c.next, firstPause)
	c.next = min(2*c.pause, maxPause)
}
