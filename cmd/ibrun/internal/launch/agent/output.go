package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

const (
	// maxLine is how much of a line is buffered. A longer line is forwarded in parts.
	maxLine = 64 << 10
	// partialLineDelay is how long a rank may pause within a line before the beginning of the line is shown on a terminal.
	partialLineDelay = 100 * time.Millisecond
	// defaultLineTimeout is how long the other ranks wait for the rest of a line after its beginning was forwarded.
	defaultLineTimeout = time.Second
	// tailBytes is how much of a rank's last output is kept, and tailLines how many lines of it ibrun shows if the rank fails.
	tailBytes = 4 << 10
	tailLines = 15
)

// output forwards the output of the ranks of one agent, so that each line contains output of one rank only. It queues nothing:
// if the destination does not accept output, the rank blocks in its own write.
type output struct {
	stdout, stderr *lineWriter
	files          map[string]*lineWriter // by file name
	forwarders     sync.WaitGroup
	mu             sync.Mutex
	openSources    map[*source]bool        // not yet forwarded to the end
	pendingBar     chan *protocol.Progress // the next progress bar to draw
}

// newOutput returns an output for the agent's own standard output and error. alone means that there is only one rank, so output
// cannot be mixed.
func newOutput(stdout, stderr *os.File, alone bool) *output {
	o := &output{stdout: newLineWriter(stdout), stderr: newLineWriter(stderr), files: map[string]*lineWriter{},
		openSources: map[*source]bool{}}
	o.stdout.name, o.stderr.name = "ibrun's standard output", "ibrun's standard error"
	if a, err := stdout.Stat(); err == nil {
		if b, err := stderr.Stat(); err == nil && os.SameFile(a, b) {
			o.stderr = o.stdout
		}
	}
	for _, s := range []*lineWriter{o.stdout, o.stderr} {
		s.showPartial = alone || term.IsTerminal(int(s.file.Fd()))
	}
	return o
}

// fileWriter returns the writer of a file. At the first call for a name it creates the file and its directory.
func (o *output) fileWriter(name string) (*lineWriter, error) {
	if s := o.files[name]; s != nil {
		return s, nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return nil, err
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	o.files[name] = newLineWriter(f)
	o.files[name].name = "file " + name
	return o.files[name], nil
}

// expandFileName replaces %r, %h and %% in a pattern.
func expandFileName(pattern string, rank int, host string) string {
	return strings.NewReplacer("%r", strconv.Itoa(rank), "%h", host, "%%", "%").Replace(pattern)
}

// source is one pipe that a rank writes to.
type source struct {
	output   *rankOutput
	isStderr bool     // it is standard error, where Go prints panics
	pipe     *os.File // the reading end, which the runtime can poll
	writer   *lineWriter
	labelled []byte      // buffer of addLabels
	blocked  atomic.Bool // it waits for the writer
}

// forward starts a goroutine that copies a pipe to its writer until every process has closed the writing end. If the writer
// fails, forward closes the pipe and calls failed. Then the rank's next write returns an error, as it would without ibrun.
func (o *output) forward(s *source, failed func(error)) {
	o.mu.Lock()
	o.openSources[s] = true
	o.mu.Unlock()
	o.forwarders.Go(func() {
		defer o.finished(s)
		err := s.copy()
		s.writer.releaseLine(s.output)
		s.pipe.Close()
		if !errors.Is(err, io.EOF) {
			failed(err)
		}
	})
}

func (o *output) finished(s *source) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.openSources, s)
}

// undelivered returns lines that say whose output has not been forwarded to its end, and why.
func (o *output) undelivered(host string) (lines []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ranks := map[string][]int{}
	for s := range o.openSources {
		why := "may be incomplete: a process outside the job has it open"
		if s.blocked.Load() {
			why = "is incomplete: " + s.writer.name + " did not accept it"
		}
		ranks[why] = append(ranks[why], s.output.rank)
	}
	for _, why := range slices.Sorted(maps.Keys(ranks)) {
		slices.Sort(ranks[why])
		lines = append(lines, fmt.Sprintf("the output of %s on %s %s", console.Ranks(slices.Compact(ranks[why])), host, why))
	}
	return lines
}

// copy copies the pipe to the writer. It returns io.EOF at the end of the pipe.
func (s *source) copy() error {
	buf := make([]byte, 0, 4<<10)
	for {
		var deadline time.Time // zero: none
		if s.writer.showPartial && len(buf) > 0 {
			deadline = time.Now().Add(partialLineDelay)
		}
		if err := s.pipe.SetReadDeadline(deadline); err != nil {
			return err
		}
		old := len(buf)
		n, err := s.pipe.Read(buf[old:cap(buf)])
		buf = buf[:old+n]
		full := len(buf) == cap(buf)
		show := 0 // the length of all complete lines
		if i := bytes.LastIndexByte(buf[old:], '\n'); i >= 0 {
			show = old + i + 1
		}
		if err != nil || show == 0 && len(buf) == maxLine {
			show = len(buf)
		}
		if err := s.write(buf[:show]); err != nil {
			return err
		}
		buf = buf[:copy(buf, buf[show:])]
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if full && cap(buf) < maxLine {
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
	}
}

// write writes to the writer as soon as no other rank is within a line there, or has been for too long.
func (s *source) write(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	s.output.appendTail(data, s.isStderr)
	s.blocked.Store(true)
	defer s.blocked.Store(false)
	w := s.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.unfinished != nil && w.unfinished != s.output {
		if wait := time.Until(w.breakAfter); wait > 0 {
			w.mu.Unlock()
			time.Sleep(min(wait, 5*time.Millisecond))
			w.mu.Lock()
			continue
		}
		if err := w.write([]byte("\n")); err != nil {
			return err
		}
		w.unfinished = nil
	}
	if s.output.label != "" {
		data = s.addLabels(data, w.unfinished != nil)
	}
	if err := w.eraseBar(); err != nil {
		return err
	}
	if err := w.write(data); err != nil {
		return err
	}
	w.unfinished = nil
	if data[len(data)-1] != '\n' {
		w.unfinished, w.breakAfter = s.output, time.Now()
		if !w.showPartial {
			w.breakAfter = w.breakAfter.Add(w.lineTimeout)
		}
	}
	return w.redrawBar()
}

// addLabels puts the rank's label before each line. If within is set, the first line continues that of the previous call.
func (s *source) addLabels(data []byte, within bool) []byte {
	s.labelled = s.labelled[:0]
	for line := range bytes.Lines(data) {
		if !within {
			s.labelled = append(s.labelled, s.output.label...)
		}
		s.labelled = append(s.labelled, line...)
		within = false
	}
	return s.labelled
}
