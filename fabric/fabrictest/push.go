package fabrictest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// reading is what becomes of memory that was pushed.
type reading int

const (
	atOnce reading = iota
	inPart         // at once, but not all of it
	later          // after the next message
	unread
	readings
)

// checkPush: a Read finds the bytes of memory that was pushed, whenever it is called, and messages come in order.
func checkPush(t *testing.T, peers Peers) {
	w := newConnected(t, peers, 2)
	if _, ok := w.peers[0].ways[1].(fabric.Pusher); !ok {
		t.Logf("%s does not push memory", w.peers[0].transport.Name())
		return
	}
	sizes := []int{0, 1, 8, 1000, 64<<10 + 1, 300 << 10, 1 << 20, 5<<20 + 5}
	w.each(func(p *peer) error {
		for i := range 3 * len(sizes) * int(readings) {
			size, how, seed := sizes[i%len(sizes)], reading(i/len(sizes))%readings, uint64(i)
			step := p.pushOne
			if p.self == 1 {
				step = p.takeOne
			}
			if err := step(1-p.self, size, how, seed); err != nil {
				return fmt.Errorf("number %d, %d bytes: %w", i, size, err)
			}
		}
		return nil
	})
}

// Messages around what is pushed: one that tells where it is, one behind it, and the answer to both.
const (
	keyBytes    = 16
	behindBytes = 100
	answerBytes = 3
)

func (p *peer) pushOne(to, size int, _ reading, seed uint64) error {
	m, err := p.expose(fill(make([]byte, size), seed))
	if err != nil {
		return err
	}
	key := binary.LittleEndian.AppendUint64(nil, m.Remote.Addr)
	key = binary.LittleEndian.AppendUint64(key, m.Remote.Key)
	pusher := p.ways[to].(fabric.Pusher)
	for err = pusher.Push(key, m.Remote, size); err == fabric.ErrAgain; err = pusher.Push(key, m.Remote, size) {
		if err := p.keep(); err != nil {
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

func (p *peer) takeOne(from, size int, how reading, seed uint64) error {
	key, err := p.receive(from)
	if err != nil || len(key) != keyBytes {
		return fmt.Errorf("%x where a key should be: %w", key, err)
	}
	src := fabric.RemoteKey{Addr: binary.LittleEndian.Uint64(key), Key: binary.LittleEndian.Uint64(key[8:])}
	if how == later || how == unread {
		if err := p.expect(from, behindBytes, seed); err != nil {
			return err
		}
	}
	if how != unread {
		n := size
		if how == inPart {
			n /= 2
		}
		m, err := p.expose(make([]byte, n))
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
	if how == atOnce || how == inPart {
		if err := p.expect(from, behindBytes, seed); err != nil {
			return err
		}
	}
	return p.send(from, fill(make([]byte, answerBytes), seed), nil)
}
