package coordinator

import (
	"sync"
	"time"
)

// maxBacklog is how many bytes of another node wait at most until this one processes them. A rank can put up to 1 MiB with PMI,
// and a node that is still building a program processes nothing.
const maxBacklog = 256 << 20

// backlog contains the messages of a connection that were received but not processed. One goroutine calls put, another take.
type backlog struct {
	mu       sync.Mutex
	changed  sync.Cond
	messages [][]byte
	bytes    int       // of messages
	ended    time.Time // when the last message or the error was added
	err      error     // follows after the last message; nil: further messages may come
}

func newBacklog() *backlog {
	b := new(backlog)
	b.changed.L = &b.mu
	return b
}

// put adds a message, or the error that follows after the last one. It blocks only while the backlog is full.
func (b *backlog) put(message []byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.bytes >= maxBacklog {
		b.changed.Wait()
	}
	if b.err, b.ended = err, time.Now(); err == nil {
		b.messages = append(b.messages, message)
		b.bytes += len(message)
	}
	b.changed.Broadcast()
}

// endedAt returns when the last message or the error was added.
func (b *backlog) endedAt() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}

// take blocks until there is a message, and removes and returns the first one. After the last it returns the error.
func (b *backlog) take() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.messages) == 0 && b.err == nil {
		b.changed.Wait()
	}
	if len(b.messages) == 0 {
		return nil, b.err
	}
	message := b.messages[0]
	b.messages[0] = nil
	b.messages = b.messages[1:]
	b.bytes -= len(message)
	b.changed.Broadcast()
	return message, nil
}
