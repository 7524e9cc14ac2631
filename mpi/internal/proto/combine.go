package proto

import (
	"time"

	"github.com/ibrun/ibrun/internal/ticks"
)

// On a transport whose sends cost a system call, messages that the program sends close together
// leave together, unless they are long. There are two cases:
//
//   - Goroutines that have been woken together usually send next, each of them. Their messages are
//     kept until the last of them has sent. A message longer than longestWoken is not kept, and the
//     others leave with it.
//   - A goroutine sends several messages to a peer in a row, such as those of a window. From the
//     fourth one on they are kept, until there are many, or the first of them is old.
//
// They also leave with the next poll, and with a longer message to the same peer. Most calls that
// wait poll. If nothing polls, because the program computes, or no call has to wait, or it waits in
// shared memory, the transport sends them after a millisecond or more. When the engine notices such
// a delay, it keeps no messages for a while. A process that exits without Finalize may lose them.
//
// While a goroutine sleeps on the transport, messages of a row are sent at once: the transport
// would wake it to send them.

const (
	// rowLength is how many messages of a row are sent before the next ones are kept.
	rowLength = 3
	// maxTogether is how many messages of a row leave together. With more, the receiver would wait
	// for its work, and the system call is already a small part of what a message costs.
	maxTogether = 32
	// rowTicks is the longest time between two messages in a row. It is also the age from which a
	// kept message is old. It is 2 to 20 us, as counters have 500 to 5,000 ticks in a microsecond:
	// about as long as a system call that sends.
	rowTicks = 10_000
	// The messages of a row are delayed if they leave so long after the last of them was given to
	// the transport: 20 to 200 us.
	rowDelayTicks = 100_000
	// longestWoken is the length in bytes of the longest message that is kept for goroutines that
	// were woken together. They may send to many peers, and each peer waits until the messages to
	// the others have been copied. That was not measured.
	longestWoken = 16 << 10
	// The messages of goroutines that were woken together are delayed if the first of them is kept
	// for so long.
	wokenDelay = 200 * time.Microsecond
	// After a delay, so many messages are sent without being kept; twice as many after each further
	// delay, up to the second value.
	firstPause = 64
	maxPause   = 1 << 16
	// pauseDecay: messages that are not delayed make the next pause shorter by this part, as
	// 1/pauseDecay. So pauses stay short if less than one time in twelve is a delay.
	pauseDecay = 16
)

// combining is the state of messages that are sent together.
type combining struct {
	peers []*peer   // to which messages are kept
	woken bool      // goroutines that were woken together have sent some of them
	began time.Time // when they sent the first one
	pause int       // number of messages to be sent without being kept
	next  int       // pause after the next delay

	limit   uint64 // rowTicks; tests change it
	longest int    // longestWoken; tests change it

	to    *peer // of the last message
	row   int   // number of messages sent to it in a row
	kept  int   // number of messages of the row that are kept
	polls uint  // waiting.polls with the last message
	// Ticks: when the last message was given to the transport, and when the first of those that are
	// kept was. The counters of two processors differ by a little, so a difference may be huge. It
	// ends the row, and is not a delay.
	last, first uint64
}

// combines reports whether a message to p may have to wait for others, or others wait for it.
func (c *combining) combines(p *peer) bool { return p.deferrer != nil || len(c.peers) != 0 }

// waiting is what combining has to know of the goroutines that wait.
type waiting struct {
	woken    bool // some have been woken together, and have not run yet
	sleeping bool // one sleeps on the transport
	polls    uint // number of polls so far
}

// sendTo is Send of the endpoint of a peer. It keeps the message if more are likely to follow soon,
// and otherwise sends it together with those that are kept.
func (c *combining) sendTo(p *peer, w waiting, header, payload []byte) (err error) {
	if c.pause != 0 && p.deferrer != nil {
		c.pause--
		return p.ep.Send(header, payload)
	}
	now, more := ticks.Now(), w.woken
	if more {
		c.row, c.kept = 0, 0
		more = len(payload) <= c.longest
	} else {
		more = !w.sleeping && c.inRow(p, w.polls, now)
	}
	delayed := !more && c.delayed(now) // before the system call
	if more && p.deferrer != nil {
		if more, err = p.deferrer.SendLater(header, payload); more {
			c.add(p, w.woken)
		}
	} else {
		err = p.ep.Send(header, payload)
	}
	if !more {
		c.send(delayed)
	}
	c.last = ticks.Now()
	return err
}

// inRow reports whether a message to p that is sent now is to be kept because it is one of several
// in a row. polls shows whether the engine has polled since the one before.
func (c *combining) inRow(p *peer, polls uint, now uint64) bool {
	if p != c.to || polls != c.polls || now-c.last > c.limit {
		c.row, c.kept = 0, 0
	}
	c.to, c.polls = p, polls
	if c.row++; c.row <= rowLength {
		return false
	}
	if c.kept == 0 {
		c.first = now
	}
	if c.kept++; c.kept == maxTogether || now-c.first > c.limit {
		c.kept = 0
		return false
	}
	return true
}

// add must be called when a message to p is kept. woken says that goroutines were woken together.
func (c *combining) add(p *peer, woken bool) {
	if woken && !c.woken {
		c.woken, c.began = true, time.Now()
	}
	if !p.combining {
		p.combining = true
		c.peers = append(c.peers, p)
	}
}

// flush sends the messages that are kept.
func (c *combining) flush() {
	if len(c.peers) != 0 {
		c.send(c.delayed(ticks.Now()))
	}
}

// delayed reports whether messages that are kept are delayed if they leave now.
func (c *combining) delayed(now uint64) bool {
	switch {
	case len(c.peers) == 0:
		return false
	case c.woken:
		return time.Since(c.began) > wokenDelay
	}
	return int64(now-c.last) > rowDelayTicks
}

// send sends the messages that are kept, if there are any. delayed says that they are delayed.
func (c *combining) send(delayed bool) {
	c.kept = 0
	if len(c.peers) == 0 {
		return
	}
	c.adapt(delayed)
	for _, p := range c.peers {
		p.deferrer.Flush()
		p.combining = false
	}
	c.peers, c.woken = c.peers[:0], false
}

// adapt chooses whether the next messages are kept. delayed says that the last ones were kept for
// long.
func (c *combining) adapt(delayed bool) {
	if !delayed {
		c.next = max(c.next-c.next/pauseDecay, firstPause)
		return
	}
	c.pause = max(c.next, firstPause)
	c.next = min(2*c.pause, maxPause)
}
