package outbox

import (
	"sync"
	"time"
)

// Writer is a queue of data for one stream, which a goroutine writes in order. Any goroutine may call its methods at any time.
type Writer struct {
	write func([]byte) error

	mu      sync.Mutex
	drained sync.Cond // signalled after each write
	queue   [][]byte  // not yet written
	bytes   int       // of queue and of the data that is being written
	running bool      // a goroutine writes the queue
}

// New returns a Writer that passes data to write, one call at a time. If write returns an error, that data is lost, and the
// next is tried: it is up to the reader of the stream to notice.
func New(write func([]byte) error) *Writer {
	w := &Writer{write: write}
	w.drained.L = &w.mu
	return w
}

// Queue appends data to the queue. It does not block. The caller must not change data afterwards.
func (w *Writer) Queue(data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, data)
	w.bytes += len(data)
	w.start()
}

// Edit replaces the queue with what edit returns, which may change the queue that it is passed. The data that is being written
// is not in it. edit must not call w.
func (w *Writer) Edit(edit func(queue [][]byte) [][]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes -= size(w.queue)
	w.queue = edit(w.queue)
	w.bytes += size(w.queue)
	w.drained.Broadcast()
	w.start()
}

// start makes a goroutine write the queue, unless one does. The caller must hold mu.
func (w *Writer) start() {
	if !w.running && len(w.queue) > 0 {
		w.running = true
		go w.run()
	}
}

// size returns the length of all data of a queue.
func size(queue [][]byte) (n int) {
	for _, data := range queue {
		n += len(data)
	}
	return n
}

// run writes until the queue is empty.
func (w *Writer) run() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 {
		data := w.queue[0]
		w.queue = w.queue[1:]
		w.mu.Unlock()
		_ = w.write(data) // see New
		w.mu.Lock()
		w.bytes -= len(data)
		w.drained.Broadcast()
	}
	w.queue, w.running = nil, false
}

// Pending returns how many bytes have not been written.
func (w *Writer) Pending() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes
}

// WaitBelow blocks until fewer than n bytes wait to be written. A sender that can be slowed down calls it before Queue, so that
// the queue is bounded.
func (w *Writer) WaitBelow(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.bytes >= n {
		w.drained.Wait()
	}
}

// Flush blocks until everything is written, but no longer than limit; 0 means no limit. It reports whether everything is written.
func (w *Writer) Flush(limit time.Duration) bool {
	expired := false
	if limit > 0 {
		timer := time.AfterFunc(limit, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			expired = true
			w.drained.Broadcast()
		})
		defer timer.Stop()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.bytes > 0 && !expired {
		w.drained.Wait()
	}
	return w.bytes == 0
}
