package fabrictest

import (
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// afterDeferred says what follows deferred messages.
type afterDeferred int

const (
	thenFlush afterDeferred = iota
	thenSend
	thenSendFrom
	thenPoll
	thenPush
	thenPushBlock // memory, which the peer reads
	afterDeferredCount
)

// checkDefer: deferred messages arrive, in the order of all messages, whatever follows them.
func checkDefer(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 2)
	if _, ok := w.peers[0].eps[1].(fabric.Deferrer); !ok {
		t.Logf("%s does not defer messages", w.peers[0].transport.Name())
		return
	}
	lengths := []int{0, 1, 8, 100, 1000, 5000, 20_000, 50_000, 100_000}
	w.each(func(p *peer) error {
		for count := range 70 {
			then := afterDeferred(count) % afterDeferredCount
			for i := range count {
				n, seed := min(lengths[i%len(lengths)], p.caps.MaxSend), uint64(count*100+i)
				if p.self == 1 {
					if err := p.expect(0, n, seed); err != nil {
						return fmt.Errorf("message %d of %d: %w", i, count, err)
					}
					continue
				}
				if err := p.sendLater(1, fill(make([]byte, n), seed)); err != nil {
					return err
				}
			}
			if err := p.afterDeferred(then, uint64(count)); err != nil {
				return fmt.Errorf("after %d messages: %w", count, err)
			}
		}
		return nil
	})
}

// sendLater defers a message at peer 0.
func (p *peer) sendLater(to int, b []byte) error {
	ep := p.eps[to].(fabric.Deferrer)
	for {
		if _, err := ep.SendLater(b, nil); err != fabric.ErrAgain {
			return err
		}
		if err := p.progress(); err != nil {
			return err
		}
	}
}

// afterDeferred makes peer 0 do what follows deferred messages, and wait for an answer without another poll before.
func (p *peer) afterDeferred(then afterDeferred, seed uint64) error {
	const n = 10
	pusher, pushes := p.eps[1-p.self].(fabric.Pusher)
	gatherer, gathers := p.eps[1-p.self].(fabric.Gatherer)
	switch follows := then != thenFlush && then != thenPoll; {
	case then == thenPushBlock && pushes && p.self == 1:
		return p.readBlock(0, 30_000, readTime(seed/uint64(afterDeferredCount))%readTimes, seed)
	case then == thenPushBlock && pushes:
		return p.pushBlock(1, 30_000, 0, seed)
	case p.self == 1:
		if follows {
			if err := p.expect(0, n, seed); err != nil {
				return err
			}
		}
		return p.send(0, fill(make([]byte, n), seed), nil)
	}
	last := fill(make([]byte, n), seed)
	err := fabric.ErrAgain // the last message has not been sent
	switch {
	case then == thenFlush:
		p.eps[1].(fabric.Deferrer).Flush()
		err = nil
	case then == thenPoll:
		err = nil
	case then == thenSendFrom && gathers:
		err = gatherer.SendFrom(last[:1], newScattered(n, 3, seed), 1, n-1)
	case then == thenPush && pushes:
		err = pusher.Push(last, fabric.RemoteKey{}, 0)
	}
	if err == fabric.ErrAgain {
		err = p.send(1, last, nil)
	}
	if err != nil {
		return err
	}
	return p.expect(1, n, seed)
}
