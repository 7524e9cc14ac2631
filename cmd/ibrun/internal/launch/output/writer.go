package output

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
)

// Writer writes lines to a standard stream of this process, or to a file.
type Writer struct {
	file        *os.File
	name        string // for messages to the user
	showPartial bool   // write unfinished lines after partialLineDelay
	terminal    bool
	lineTimeout time.Duration // how long other ranks wait for the rest of a line

	mu         sync.Mutex
	unfinished *Origin         // the rank whose line is unfinished, or nil
	breakAfter time.Time       // other ranks may end that line with a newline after this time
	bar        string          // the bar below the last line; drawn only while no line is unfinished; empty: none
	barEnded   bool            // no more bars are drawn
	closed     bool            // the file is a terminal that was closed: lines are dropped
	written    int             // how many lines were begun
	last       [tailLines]line // the last ones: line i is at i%tailLines
}

// line is a line that was written.
type line struct {
	of    *Origin // nil: no line
	bytes int
}

func newWriter(f *os.File) *Writer {
	return &Writer{file: f, lineTimeout: defaultLineTimeout, terminal: term.IsTerminal(int(f.Fd()))}
}

// setBar draws a progress bar that stays below all following lines.
func (w *Writer) setBar(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.barEnded {
		return
	}
	w.bar = text
	_ = w.redrawBar() // an error of the terminal is reported by the next write of a line
}

// endBar removes the bar. No bar is drawn afterwards.
func (w *Writer) endBar() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.eraseBar() // as in setBar
	w.bar, w.barEnded = "", true
}

// eraseBar erases the bar, so that a line can be written. The caller must hold mu.
func (w *Writer) eraseBar() error {
	if w.bar == "" || w.unfinished != nil {
		return nil
	}
	return w.write([]byte(console.EraseLine))
}

// redrawBar draws the bar below the lines that have been written. The caller must hold mu.
func (w *Writer) redrawBar() error {
	if w.bar == "" || w.unfinished != nil {
		return nil
	}
	return w.write([]byte(w.bar + console.EraseLine + "\r"))
}

// write writes all of data. The caller must hold mu. It drops data for a terminal that was closed: an error would close the
// pipe of the rank, and SIGPIPE would kill the rank while it handles SIGHUP.
func (w *Writer) write(data []byte) error {
	if w.closed {
		return nil
	}
	err := console.WriteAll(w.file, data)
	if w.terminal && errors.Is(err, unix.EIO) {
		w.closed = true
		return nil
	}
	return err
}

// releaseLine lets other ranks end the unfinished line of a rank that writes no more.
func (w *Writer) releaseLine(v *Origin) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unfinished == v {
		w.breakAfter = time.Time{}
	}
}

// wrote records what an origin has written. If within is set, the first line continues the last one. The caller must hold mu.
func (w *Writer) wrote(r *Origin, data []byte, within bool) {
	r.addWritten(w, len(data))
	for text := range bytes.Lines(data) {
		if !within {
			w.written++
			w.last[w.written%tailLines] = line{of: r}
		}
		w.last[w.written%tailLines].bytes += len(text)
		within = false
	}
}

// Shown reports whether the last n bytes that an origin has written anywhere are in the last tailLines lines here. It returns how
// many bytes there are from their first line on, with the lines of other origins between them, or 0.
func (w *Writer) Shown(r *Origin, n int) (span int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n == 0 || !r.hasWritten(w, n) {
		return 0
	}
	for i := range tailLines {
		l := w.last[(w.written+tailLines-i)%tailLines]
		span += l.bytes
		if l.of == r {
			n -= l.bytes
		}
		if n <= 0 {
			return span
		}
	}
	return 0
}
