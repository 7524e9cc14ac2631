package agent

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

// rankOutput is the standard output and standard error of one rank.
type rankOutput struct {
	rank  int
	label string // printed before each line, or empty

	mu    sync.Mutex
	tail  []byte // the last tailBytes; after a panic the first ones from the panic on, which show its cause
	panic bool
}

func newRankOutput(rank int, labelled bool) *rankOutput {
	v := &rankOutput{rank: rank}
	if labelled {
		v.label = fmt.Sprintf("[%d] ", rank)
	}
	return v
}

// lastLines returns the last lines that the rank has written, or the first lines of its panic.
func (r *rankOutput) lastLines() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := strings.SplitAfter(strings.TrimSuffix(string(r.tail), "\n"), "\n")
	if r.panic {
		lines = lines[:min(len(lines), tailLines)]
	}
	return strings.Join(lines[max(0, len(lines)-tailLines):], "")
}

func (r *rankOutput) appendTail(data []byte, trace bool) {
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
