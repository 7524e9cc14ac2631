package agent

import (
	"os"
	"sync"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
)

// setBar draws what stands below all lines from now on.
func (k *lineWriter) setBar(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.barEnded {
		return
	}
	k.bar = text
	_ = k.redrawBar() // that the terminal has gone is seen where it matters
}

// endBar removes the bar for good.
func (k *lineWriter) endBar() {
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = k.eraseBar() // as above
	k.bar, k.barEnded = "", true
}

// eraseBar makes room for a line. The caller holds mu, as in redrawBar.
func (k *lineWriter) eraseBar() error {
	if k.bar == "" || k.unfinished != nil {
		return nil
	}
	return k.write([]byte(console.EraseLine))
}

// redrawBar puts the bar below what has been written.
func (k *lineWriter) redrawBar() error {
	if k.bar == "" || k.unfinished != nil {
		return nil
	}
	return k.write([]byte(k.bar + console.EraseLine + "\r"))
}

// lineWriter is where lines go: ibrun's standard output and error (one sink if they are the same), or a file.
type lineWriter struct {
	file        *os.File
	name        string        // as the user knows it
	showPartial bool          // show unfinished lines after a while
	lineTimeout time.Duration // how long others wait for the rest of a line

	mu         sync.Mutex
	unfinished *rankOutput // whose line is unfinished here, nil if none is
	breakAfter time.Time   // from then on others may end that line with a newline of their own
	bar        string      // stands below the last line, while no line is unfinished; empty: none
	barEnded   bool        // no bar will be drawn any more
}

func newLineWriter(f *os.File) *lineWriter {
	return &lineWriter{file: f, lineTimeout: defaultLineTimeout}
}

// write waits until all has been taken.
func (k *lineWriter) write(data []byte) error { return console.WriteAll(k.file, data) }

// releaseLine lets others end the line that a rank will not.
func (k *lineWriter) releaseLine(v *rankOutput) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.unfinished == v {
		k.breakAfter = time.Time{}
	}
}
