package launch

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

	"github.com/ibrun/ibrun/hw"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

const (
	// longLine is how much of a line is kept in memory. A longer one is passed on in pieces.
	longLine = 64 << 10
	// idle is how long a rank may pause within a line before what there is of it is shown, where someone may be
	// watching.
	idle = 100 * time.Millisecond
	// patience is how long the other ranks wait for the rest of a line of which a part was passed on.
	patience = time.Second
	// tailBytes is how much of a rank's last output is kept for the report, and tailLines how much of that is shown.
	tailBytes = 4 << 10
	tailLines = 15
)

// output passes on what the ranks of one agent write, so that a line comes from one rank. Nothing is queued: a rank
// whose output is not taken waits in its own write.
type output struct {
	stdout, stderr *sink
	files          map[string]*sink // by name
	pumps          sync.WaitGroup
	mu             sync.Mutex
	open           map[*source]bool // whose end has not been passed on
	bars           chan *progress   // the next to be drawn
}

// sink is where lines go: ibrun's standard output and error (one sink if they are the same), or a file.
type sink struct {
	file     *os.File
	name     string        // as the user knows it
	eager    bool          // show unfinished lines after a while
	patience time.Duration // how long others wait for the rest of a line

	mu    sync.Mutex
	open  *voice    // whose line is unfinished here, nil if none is
	yield time.Time // from then on others may end that line with a newline of their own
	bar   string    // stands below the last line, while no line is unfinished; empty: none
	late  bool      // no bar will be drawn any more
}

func newSink(f *os.File) *sink { return &sink{file: f, patience: patience} }

// newOutput takes the agent's own standard output and error. alone says that there is one rank, so nothing can be
// mixed.
func newOutput(stdout, stderr *os.File, alone bool) *output {
	o := &output{stdout: newSink(stdout), stderr: newSink(stderr), files: map[string]*sink{}, open: map[*source]bool{}}
	o.stdout.name, o.stderr.name = "ibrun's standard output", "ibrun's standard error"
	if a, err := stdout.Stat(); err == nil {
		if b, err := stderr.Stat(); err == nil && os.SameFile(a, b) {
			o.stderr = o.stdout
		}
	}
	for _, s := range []*sink{o.stdout, o.stderr} {
		s.eager = alone || term.IsTerminal(int(s.file.Fd()))
	}
	return o
}

// toFile returns the sink of a file, which is made new together with its directory.
func (o *output) toFile(name string) (*sink, error) {
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
	o.files[name] = newSink(f)
	o.files[name].name = "file " + name
	return o.files[name], nil
}

// fileName fills in a pattern.
func fileName(pattern string, rank int, host string) string {
	return strings.NewReplacer("%r", strconv.Itoa(rank), "%h", host, "%%", "%").Replace(pattern)
}

// source is one pipe that a rank writes into.
type source struct {
	voice *voice
	trace bool     // it is standard error, where Go writes why it panics
	pipe  *os.File // the end to read, which the runtime can poll
	sink  *sink
	lines []byte      // with labels; kept for its memory
	full  atomic.Bool // it waits until the sink has taken something
}

// voice is one rank's standard output and standard error together.
type voice struct {
	rank  int
	label string // before each line, or empty

	mu    sync.Mutex
	tail  []byte // the last tailBytes; or the first, from a panic on, whose cause stands at its beginning
	panic bool
}

func newVoice(rank int, labelled bool) *voice {
	v := &voice{rank: rank}
	if labelled {
		v.label = fmt.Sprintf("[%d] ", rank)
	}
	return v
}

// last returns the last lines of what the rank wrote, or the first lines of its panic.
func (v *voice) last() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	lines := strings.SplitAfter(strings.TrimSuffix(string(v.tail), "\n"), "\n")
	if v.panic {
		lines = lines[:min(len(lines), tailLines)]
	}
	return strings.Join(lines[max(0, len(lines)-tailLines):], "")
}

func (v *voice) remember(data []byte, trace bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if trace && !v.panic {
		if i := panicAt(data); i >= 0 {
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

// panicAt finds the line with which a Go program begins to die, or returns -1.
func panicAt(data []byte) int {
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

// pump passes on what comes through a pipe until everybody who could write into it has closed it. If the sink
// cannot take it any more, the rank's next write is an error, as it would be without ibrun between; failed is told
// why.
func (o *output) pump(s *source, failed func(error)) {
	o.mu.Lock()
	o.open[s] = true
	o.mu.Unlock()
	o.pumps.Go(func() {
		defer o.done(s)
		err := s.copy()
		s.sink.release(s.voice)
		s.pipe.Close()
		if !errors.Is(err, io.EOF) {
			failed(err)
		}
	})
}

func (o *output) done(s *source) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, s)
}

// unfinished says of which dead ranks the output has not been passed on to its end, and why.
func (o *output) unfinished(host string) (lines []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ranks := map[string][]int{}
	for s := range o.open {
		why := "may go on: a process that is not of the job holds it open"
		if s.full.Load() {
			why = "was dropped in part: " + s.sink.name + " did not take it"
		}
		ranks[why] = append(ranks[why], s.voice.rank)
	}
	for _, why := range slices.Sorted(maps.Keys(ranks)) {
		slices.Sort(ranks[why])
		lines = append(lines, fmt.Sprintf("the output of ranks %s on %s %s", hw.FormatList(slices.Compact(ranks[why])), host, why))
	}
	return lines
}

// copy returns io.EOF at the end of the pipe.
func (s *source) copy() error {
	buf := make([]byte, 0, 4<<10)
	for {
		var pause time.Time // never
		if s.sink.eager && len(buf) > 0 {
			pause = time.Now().Add(idle)
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
		if err != nil || show == 0 && len(buf) == longLine {
			show = len(buf)
		}
		if err := s.put(buf[:show]); err != nil {
			return err
		}
		buf = buf[:copy(buf, buf[show:])]
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if full && cap(buf) < longLine {
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
	}
}

// put writes to the sink once no other rank is within a line there, or has been for too long.
func (s *source) put(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	s.voice.remember(data, s.trace)
	s.full.Store(true)
	defer s.full.Store(false)
	k := s.sink
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.open != nil && k.open != s.voice {
		if wait := time.Until(k.yield); wait > 0 {
			k.mu.Unlock()
			time.Sleep(min(wait, 5*time.Millisecond))
			k.mu.Lock()
			continue
		}
		if err := k.write([]byte("\n")); err != nil {
			return err
		}
		k.open = nil
	}
	if s.voice.label != "" {
		data = s.labelled(data, k.open != nil)
	}
	if err := k.eraseBar(); err != nil {
		return err
	}
	if err := k.write(data); err != nil {
		return err
	}
	k.open = nil
	if data[len(data)-1] != '\n' {
		k.open, k.yield = s.voice, time.Now()
		if !k.eager {
			k.yield = k.yield.Add(k.patience)
		}
	}
	return k.redrawBar()
}

// write waits until all has been taken.
func (k *sink) write(data []byte) error { return writeAll(k.file, data) }

// writeAll writes to one of ibrun's or the agent's standard streams. A terminal is one file for all who have it: a rank that
// makes its standard input non-blocking makes it so for them too, who have not opened it as such.
func writeAll(f *os.File, data []byte) error {
	for {
		n, err := f.Write(data)
		if !errors.Is(err, unix.EAGAIN) {
			return err
		}
		data = data[n:]
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLOUT}}, -1)
		if err != nil && err != unix.EINTR {
			return err
		}
	}
}

// release lets others end the line that a rank will not.
func (k *sink) release(v *voice) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open == v {
		k.yield = time.Time{}
	}
}

// labelled puts the rank's label before each line. The first one goes on where the last call ended if within is set.
func (s *source) labelled(data []byte, within bool) []byte {
	s.lines = s.lines[:0]
	for line := range bytes.Lines(data) {
		if !within {
			s.lines = append(s.lines, s.voice.label...)
		}
		s.lines = append(s.lines, line...)
		within = false
	}
	return s.lines
}
