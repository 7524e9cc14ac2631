package output

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
)

// Origin is what writes lines: one rank, or all of the ranks and the ibrun of another node.
type Origin struct {
	ranks []int
	host  string
	label string // printed before each line, or empty
	node  bool   // it is a node, whose tail is not wanted

	mu     sync.Mutex
	tail   []byte // the last tailBytes; after a panic the first ones from the panic on, which show its cause
	panic  bool
	writer *Writer // where it has written last, or nil
	// written is how many bytes it has written there since it has written elsewhere.
	written int
}

// NewRank returns the origin of the output of a rank.
func NewRank(rank int, host string, labelled bool) *Origin {
	r := &Origin{ranks: []int{rank}, host: host}
	if labelled {
		r.label = fmt.Sprintf("[%d] ", rank)
	}
	return r
}

// NewNode returns the origin of the output that another process has merged: that of a node with these ranks.
func NewNode(ranks []int, host string) *Origin { return &Origin{ranks: ranks, host: host, node: true} }

// describe names ranks and their host.
func describe(ranks []int, host string) string {
	if len(ranks) == 0 {
		return host
	}
	return console.Ranks(ranks) + " on " + host
}

// LastLines returns the last lines that the rank has written, or the first lines of its panic.
func (r *Origin) LastLines() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := strings.SplitAfter(strings.TrimSuffix(string(r.tail), "\n"), "\n")
	if r.panic {
		lines = lines[:min(len(lines), tailLines)]
	}
	return strings.Join(lines[max(0, len(lines)-tailLines):], "")
}

// ShownIn returns how many bytes the last lines take at the end of w, as [Writer.Shown], or 0 if they are not there.
func (r *Origin) ShownIn(w *Writer) (span int) {
	lines := r.LastLines()
	r.mu.Lock()
	more := r.panic && (len(r.tail) == tailBytes || bytes.Count(r.tail, []byte("\n")) > tailLines)
	r.mu.Unlock()
	if lines == "" || more { // more has followed the beginning of a panic
		return 0
	}
	return w.Shown(r, len(lines)+len(r.label)*(1+strings.Count(lines, "\n")))
}

// addWritten records that n bytes were written to w.
func (r *Origin) addWritten(w *Writer, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writer != w {
		r.writer, r.written = w, 0
	}
	r.written += n
}

// hasWritten reports whether the last n bytes were written to w.
func (r *Origin) hasWritten(w *Writer, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writer == w && r.written >= n
}

func (r *Origin) appendTail(data []byte, trace bool) {
	if r.node {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if trace && !r.panic {
		if i := indexPanic(data); i >= 0 {
			r.tail, r.panic, data = r.tail[:0], true, data[i:]
		}
	}
	if r.panic {
		r.tail = append(r.tail, data[:min(len(data), tailBytes-len(r.tail))]...)
		return
	}
	r.tail = append(r.tail, data[max(0, len(data)-tailBytes):]...)
	if extra := len(r.tail) - tailBytes; extra > 0 {
		r.tail = r.tail[:copy(r.tail, r.tail[extra:])]
	}
}

// indexPanic returns the index of the line with which a Go program reports a panic or a fatal error, or -1.
func indexPanic(data []byte) int {
	for _, head := range []string{"panic: ", "fatal error: "} {
		if bytes.HasPrefix(data, []byte(head)) {
			return 0
		}
		if i := bytes.Index(data, []byte("\n"+head)); i >= 0 {
			return i + 1
		}
	}
	return -1
}
