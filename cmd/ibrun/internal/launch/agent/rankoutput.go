package agent

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

// rankOutput is one rank's standard output and standard error together.
type rankOutput struct {
	rank  int
	label string // before each line, or empty

	mu    sync.Mutex
	tail  []byte // the last tailBytes; or the first, from a panic on, whose cause stands at its beginning
	panic bool
}

func newRankOutput(rank int, labelled bool) *rankOutput {
	v := &rankOutput{rank: rank}
	if labelled {
		v.label = fmt.Sprintf("[%d] ", rank)
	}
	return v
}

// lastLines returns the last lines of what the rank wrote, or the first lines of its panic.
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

// indexPanic finds the line with which a Go program begins to die, or returns -1.
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
