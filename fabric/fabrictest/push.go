package fabrictest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// readTime says when the receiver reads memory that was pushed.
type readTime int

const (
	readNow   readTime = iota // before the next Poll
	readPart                  // before the next Poll, but not all of it
	readLater                 // after the next message
	notRead
	readTimes
)

// checkPush: a Read returns the bytes of memory that was pushed, whenever it is called, and messages arrive in order.
func checkPush(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 2)
	if _, ok := w.peers[0].eps[1].(fabric.Pusher); !ok {
		t.Logf("%s does not push memory", w.peers[0].transport.Name())
		return
	}
	sizes := []int{0, 1, 8, 1000, 64<<10 + 1, 300 << 10, 1 << 20, 5<<20 + 5}
	w.each(func(p *peer) error {
		for i := range len(sizes) * int(readTimes) {
			size, how, seed := sizes[i%len(sizes)], readTime(i/len(sizes))%readTimes, uint64(i)
			step := p.pushBlock
			if p.self == 1 {
				step = p.readBlock
			}
			if err := step(1-p.self, size, how, seed); err != nil {
				return fmt.Errorf("number %d, %d bytes: %w", i, size, err)
			}
		}
		return nil
	})
}

// Lengths of the messages around pushed memory: the key of the memory, the next message, and the answer to both.
const (
	keyBytes    = 16
	behindBytes = 100
	answerBytes = 3
)

func (p *peer) pushBlock(to, size int, _ readTime, seed uint64) error {
	m, err := p.register(fill(make([]byte, size), seed))
	if err != nil {
		return err
	}
	key := binary.LittleEndian.AppendUint64(nil, m.Remote.Addr)
	key = binary.LittleEndian.AppendUint64(key, m.Remote.Key)
	pusher := p.eps[to].(fabric.Pusher)
	for err = pusher.Push(key, m.Remote, size); err == fabric.ErrAgain; err = pusher.Push(key, m.Remote, size) {
		if err := p.progress(); err != nil {
			return err
		}
	}
	if err == nil {
		err = p.send(to, fill(make([]byte, behindBytes), seed), nil)
	}
	if err == nil {
		err = p.expect(to, answerBytes, seed)
	}
	return errors.Join(err, p.Deregister(m.Region))
}

func (p *peer) readBlock(from, size int, how readTime, seed uint64) error {
	key, err := p.receive(from)
	if err != nil || len(key) != keyBytes {
		return fmt.Errorf("%x instead of a key: %w", key, err)
	}
	src := fabric.RemoteKey{Addr: binary.LittleEndian.Uint64(key), Key: binary.LittleEndian.Uint64(key[8:])}
	if how == readLater || how == notRead {
		if err := p.expect(from, behindBytes, seed); err != nil {
			return err
		}
	}
	if how != notRead {
		n := size
		if how == readPart {
			n /= 2
		}
		m, err := p.register(make([]byte, n))
		if err == nil {
			err = read(p, m, from, src)
		}
		if err == nil {
			err = check(m.b, n, seed)
		}
		if err = errors.Join(err, p.Deregister(m.Region)); err != nil {
			return err
		}
	}
	if how == readNow || how == readPart {
		if err := p.expect(from, behindBytes, seed); err != nil {
			return err
		}
	}
	return p.send(from, fill(make([]byte, answerBytes), seed), nil)
}
