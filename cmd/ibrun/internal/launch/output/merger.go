package output

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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

// Merger forwards the output of several origins to two streams and to files, so that each line contains output of one origin
// only. It queues nothing: if the destination does not accept output, it does not read from the source either, and the rank
// blocks in its own write.
type Merger struct {
	Stdout, Stderr *Writer // the same one if both are one file

	files       map[string]*Writer // by file name
	forwarders  sync.WaitGroup
	mu          sync.Mutex
	openSources map[*Source]bool        // not yet forwarded to the end
	pendingBar  chan *protocol.Progress // the next progress bar to draw
}

// New returns a Merger to this process's own standard output and error. alone means that there is only one rank, so output
// cannot be mixed.
func New(stdout, stderr *os.File, alone bool) *Merger {
	m := &Merger{Stdout: newWriter(stdout), Stderr: newWriter(stderr), files: map[string]*Writer{},
		openSources: map[*Source]bool{}}
	m.Stdout.name, m.Stderr.name = "ibrun's standard output", "ibrun's standard error"
	if a, err := stdout.Stat(); err == nil {
		if b, err := stderr.Stat(); err == nil && os.SameFile(a, b) {
			m.Stderr = m.Stdout
		}
	}
	for _, w := range []*Writer{m.Stdout, m.Stderr} {
		w.showPartial = alone || w.terminal
	}
	return m
}

// ShowPartial makes the Merger forward the beginnings of lines after a short time, as it does by itself if the stream is a
// terminal: a terminal is at the end of what the stream is forwarded to. It must be called before the first Forward.
func (m *Merger) ShowPartial(stdout, stderr bool) {
	m.Stdout.showPartial = m.Stdout.showPartial || stdout
	m.Stderr.showPartial = m.Stderr.showPartial || stderr
}

// FileWriter returns the writer of a file. At the first call for a name it creates the file and its directory.
func (m *Merger) FileWriter(name string) (*Writer, error) {
	if s := m.files[name]; s != nil {
		return s, nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return nil, err
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	m.files[name] = newWriter(f)
	m.files[name].name = "file " + name
	return m.files[name], nil
}

// ExpandFileName replaces %r, %h and %% in a pattern.
func ExpandFileName(pattern string, rank int, host string) string {
	return strings.NewReplacer("%r", strconv.Itoa(rank), "%h", host, "%%", "%").Replace(pattern)
}

// Reader is what a [Source] is read from. An [os.File] is one, if the runtime can poll it.
type Reader interface {
	io.ReadCloser
	// SetReadDeadline sets the deadline of reads; zero means none. After it they return os.ErrDeadlineExceeded.
	SetReadDeadline(time.Time) error
}

// Source is one stream of an origin: a pipe that a rank writes to, or a stream of another node.
type Source struct {
	Origin   *Origin
	IsStderr bool   // it is standard error, where Go prints panics
	Pipe     Reader // the Merger closes it
	Writer   *Writer

	labelled []byte      // buffer of addLabels
	blocked  atomic.Bool // it waits for the writer
}

// Forward starts a goroutine that copies a source to its writer until the end, for a pipe until every process has closed the
// writing end. If the writer fails, it calls failed and closes the source. Then the rank's next write returns an error, as it
// would without ibrun. That error may end the rank, so failed is called first: the reason is known before its consequence.
func (m *Merger) Forward(s *Source, failed func(error)) {
	m.mu.Lock()
	m.openSources[s] = true
	m.mu.Unlock()
	m.forwarders.Go(func() {
		defer m.finished(s)
		err := s.copy()
		s.Writer.releaseLine(s.Origin)
		if !errors.Is(err, io.EOF) {
			failed(err)
		}
		s.Pipe.Close()
	})
}

func (m *Merger) finished(s *Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.openSources, s)
}

// Wait blocks until all sources have been forwarded to their ends.
func (m *Merger) Wait() { m.forwarders.Wait() }

// Undelivered returns lines that say whose output has not been forwarded to its end, and why. It omits these origins.
func (m *Merger) Undelivered(omit ...*Origin) (lines []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	type group struct{ host, why string }
	groups := map[group][]int{}
	for s := range m.openSources {
		if slices.Contains(omit, s.Origin) {
			continue
		}
		why := "may be incomplete: a process outside the job has it open"
		if blocked := s.blocked.Load(); !blocked && s.Origin.node {
			continue // it has ended, and is about to be forgotten
		} else if blocked {
			why = "is incomplete: " + s.Writer.name + " did not accept it"
		}
		at := group{s.Origin.host, why}
		groups[at] = append(groups[at], s.Origin.ranks...)
	}
	for at, ranks := range groups {
		slices.Sort(ranks)
		lines = append(lines, fmt.Sprintf("the output of %s %s", describe(slices.Compact(ranks), at.host), at.why))
	}
	slices.Sort(lines)
	return lines
}

// copy copies the source to the writer. It returns io.EOF at the end of the source.
func (s *Source) copy() error {
	buf := make([]byte, 0, 4<<10)
	for {
		var deadline time.Time // zero: none
		if s.Writer.showPartial && len(buf) > 0 {
			deadline = time.Now().Add(partialLineDelay)
		}
		if err := s.Pipe.SetReadDeadline(deadline); err != nil {
			return err
		}
		old := len(buf)
		n, err := s.Pipe.Read(buf[old:cap(buf)])
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
func (s *Source) write(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	s.Origin.appendTail(data, s.IsStderr)
	s.blocked.Store(true)
	defer s.blocked.Store(false)
	w := s.Writer
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.unfinished != nil && w.unfinished != s.Origin {
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
	if s.Origin.label != "" {
		data = s.addLabels(data, w.unfinished != nil)
	}
	if err := w.eraseBar(); err != nil {
		return err
	}
	if err := w.write(data); err != nil {
		return err
	}
	w.wrote(s.Origin, data, w.unfinished != nil)
	w.unfinished = nil
	if data[len(data)-1] != '\n' {
		w.unfinished, w.breakAfter = s.Origin, time.Now()
		if !w.showPartial {
			w.breakAfter = w.breakAfter.Add(w.lineTimeout)
		}
	}
	return w.redrawBar()
}

// addLabels puts the rank's label before each line. If within is set, the first line continues that of the previous call.
func (s *Source) addLabels(data []byte, within bool) []byte {
	s.labelled = s.labelled[:0]
	for line := range bytes.Lines(data) {
		if !within {
			s.labelled = append(s.labelled, s.Origin.label...)
		}
		s.labelled = append(s.labelled, line...)
		within = false
	}
	return s.labelled
}
