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

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/hw"
	"golang.org/x/term"
)

const (
	// longLine is how much of a line is kept in memory. A longer one is passed on in pieces.
	maxLine = 64 << 10
	// idle is how long a rank may pause within a line before what there is of it is shown, where someone may be
	// watching.
	partialLineDelay = 100 * time.Millisecond
	// patience is how long the other ranks wait for the rest of a line of which a part was passed on.
	defaultLineTimeout = time.Second
	// tailBytes is how much of a rank's last output is kept for the report, and tailLines how much of that is shown.
	tailBytes = 4 << 10
	tailLines = 15
)

// output passes on what the ranks of one agent write, so that a line comes from one rank. Nothing is queued: a rank
// whose output is not taken waits in its own write.
type output struct {
	stdout, stderr *lineWriter
	files          map[string]*lineWriter // by name
	forwarders     sync.WaitGroup
	mu             sync.Mutex
	openSources    map[*source]bool        // whose end has not been passed on
	pendingBar     chan *protocol.Progress // the next to be drawn
}

// newOutput takes the agent's own standard output and error. alone says that there is one rank, so nothing can be
// mixed.
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

// fileWriter returns the sink of a file, which is made new together with its directory.
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

// expandFileName fills in a pattern.
func expandFileName(pattern string, rank int, host string) string {
	return strings.NewReplacer("%r", strconv.Itoa(rank), "%h", host, "%%", "%").Replace(pattern)
}

// source is one pipe that a rank writes into.
type source struct {
	output   *rankOutput
	isStderr bool     // it is standard error, where Go writes why it panics
	pipe     *os.File // the end to read, which the runtime can poll
	writer   *lineWriter
	labelled []byte      // with labels; kept for its memory
	blocked  atomic.Bool // it waits until the sink has taken something
}

// forward passes on what comes through a pipe until everybody who could write into it has closed it. If the sink
// cannot take it any more, the rank's next write is an error, as it would be without ibrun between; failed is told
// why.
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

// undelivered says of which dead ranks the output has not been passed on to its end, and why.
func (o *output) undelivered(host string) (lines []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ranks := map[string][]int{}
	for s := range o.openSources {
		why := "may go on: a process that is not of the job holds it open"
		if s.blocked.Load() {
			why = "was dropped in part: " + s.writer.name + " did not take it"
		}
		ranks[why] = append(ranks[why], s.output.rank)
	}
	for _, why := range slices.Sorted(maps.Keys(ranks)) {
		slices.Sort(ranks[why])
		lines = append(lines, fmt.Sprintf("the output of ranks %s on %s %s", hw.FormatList(slices.Compact(ranks[why])), host,
			why))
	}
	return lines
}

// copy returns io.EOF at the end of the pipe.
func (s *source) copy() error {
	buf := make([]byte, 0, 4<<10)
	for {
		var pause time.Time // never
		if s.writer.showPartial && len(buf) > 0 {
			pause = time.Now().Add(partialLineDelay)
		}
		if err := s.pipe.SetReadDeadline(pause); err != nil {
			return err
		}
		old := len(buf)
		n, err := s.pipe.Read(buf[old:cap(buf)])
		buf = buf[:old+n]
		full := len(buf) == cap(buf)
		show := 0 // all whole lines
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

// write writes to the sink once no other rank is within a line there, or has been for too long.
func (s *source) write(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	s.output.appendTail(data, s.isStderr)
	s.blocked.Store(true)
	defer s.blocked.Store(false)
	k := s.writer
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.unfinished != nil && k.unfinished != s.output {
		if wait := time.Until(k.breakAfter); wait > 0 {
			k.mu.Unlock()
			time.Sleep(min(wait, 5*time.Millisecond))
			k.mu.Lock()
			continue
		}
		if err := k.write([]byte("\n")); err != nil {
			return err
		}
		k.unfinished = nil
	}
	if s.output.label != "" {
		data = s.addLabels(data, k.unfinished != nil)
	}
	if err := k.eraseBar(); err != nil {
		return err
	}
	if err := k.write(data); err != nil {
		return err
	}
	k.unfinished = nil
	if data[len(data)-1] != '\n' {
		k.unfinished, k.breakAfter = s.output, time.Now()
		if !k.showPartial {
			k.breakAfter = k.breakAfter.Add(k.lineTimeout)
		}
	}
	return k.redrawBar()
}

// addLabels puts the rank's label before each line. The first one goes on where the last call ended if within is set.
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
