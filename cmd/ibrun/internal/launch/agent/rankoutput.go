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
func (v *rankOutput) lastLines() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	lines := strings.SplitAfter(strings.TrimSuffix(string(v.tail), "\n"), "\n")
	if v.panic {
		lines = lines[:min(len(lines), tailLines)]
	}
	return strings.Join(lines[max(0, len(lines)-tailLines):], "")
}

func (v *rankOutput) appendTail(data []byte, trace bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if trace && !v.panic {
		if i := indexPanic(data); i >= 0 {
			v.tail, v.panic, data = v.tail[:0], true, data[i:]
		}
	}
	if v.panic {
		v.tail = append(v.tail, data[:min(len(data), tailBytes-len(v.tail))]...)
		return
	}
	v.tail = append(v.tail, data[max(0, len(data)-tailBytes):]...)
	if extra := len(v.tail) - tailBytes; extra > 0 {
		v.tail = v.tail[:copy(v.tail, v.tail[extra:])]
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
