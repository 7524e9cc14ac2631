package remote

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/message"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/watcher"
	"github.com/ibrun/ibrun/internal/buildinfo"
)

const (
	// maxBanner is how many bytes a login shell may write before the greeting of ibrun.
	maxBanner = 64 << 10
	// maxKept is how many lines of a command are kept for its diagnosis, and maxLine how many bytes of each.
	maxKept, maxLine = 12, 1 << 10
	// maxMessage is how many bytes a message of ibrun in JSON has at most. A longer one is cut off, and is then not a message.
	maxMessage = 64 << 10
	// maxGarbage is how many lines are shown of a command that is not ibrun.
	maxGarbage = 2
	// stderrTimeout is how long the lines of a command may take that has ended: another process may hold its standard error.
	stderrTimeout = 200 * time.Millisecond
)

// command is a command that starts ibrun on one host, or on several.
type command struct {
	hosts   []Host
	words   []string
	program string // the path of ibrun on this host
	running *watcher.Running
	err     *lines // what it writes to standard error

	mu      sync.Mutex
	in, out *os.File // to its standard input, and from its standard output; nil: detached or closed
	banner  []string // the last lines before the greeting
	skipped int      // bytes of them
}

// start starts a command with these variables in place of those of Slurm, unless env is nil. Its lines on standard error have at
// most longest bytes. It may run on for the time linger if ibrun dies.
func start(w *watcher.Watcher, hosts []Host, words, env []string, longest int, linger time.Duration) (*command, error) {
	path, err := exec.LookPath(words[0])
	if err != nil {
		return nil, err
	}
	c := &command{hosts: hosts, words: words}
	var files [3]*os.File // its standard streams
	var stderr *os.File
	if files[0], c.in, err = os.Pipe(); err != nil {
		return nil, err
	}
	defer files[0].Close()
	if c.out, files[1], err = os.Pipe(); err != nil {
		c.hangUp()
		return nil, err
	}
	defer files[1].Close()
	if stderr, files[2], err = os.Pipe(); err != nil {
		c.hangUp()
		return nil, err
	}
	defer files[2].Close()
	run := watcher.Command{Path: path, Args: words, Env: env, KilledTogether: true, Linger: linger,
		Files: []uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd()}}
	if env != nil {
		run.Unset = slurmPrefixes()
	}
	if c.running, err = w.Run(run); err != nil {
		c.hangUp()
		return nil, errors.Join(err, stderr.Close())
	}
	c.err = readLines(stderr, longest)
	return c, nil
}

// String returns the command as a user types it.
func (c *command) String() string { return quoted(c.words) }

// hangUp closes the streams of the command, unless they are detached: ibrun on the other side then ends.
func (c *command) hangUp() {
	in, out := c.detach()
	if in != nil {
		in.Close()
	}
	if out != nil {
		out.Close()
	}
}

// detach returns the streams of the command, which the caller closes.
func (c *command) detach() (in, out *os.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	in, out = c.in, c.out
	c.in, c.out = nil, nil
	return in, out
}

// streams returns the streams of the command.
func (c *command) streams() (in, out *os.File, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in == nil || c.out == nil {
		return nil, nil, os.ErrClosed
	}
	return c.in, c.out, nil
}

// readLine reads a line of standard output, byte by byte, since what follows the greeting is for other readers. A longer line
// than maxBanner is an error.
func (c *command) readLine() (string, error) {
	_, out, err := c.streams()
	if err != nil {
		return "", err
	}
	var line []byte
	for b := make([]byte, 1); len(line) < maxBanner; {
		n, err := out.Read(b)
		switch {
		case n == 1 && b[0] == '\n':
			return string(line), nil
		case n == 1:
			line = append(line, b[0])
		case err != nil:
			if len(line) > 0 {
				c.skip(string(line))
			}
			return "", err
		}
	}
	c.skip(string(line[:maxLine]))
	return "", errBanner
}

// errBanner means that a command writes something else than ibrun does.
var errBanner = fmt.Errorf("it wrote more than %d KiB that are not of ibrun", maxBanner>>10)

// skip keeps a line that is not a greeting for the diagnosis.
func (c *command) skip(line string) {
	c.skipped += len(line) + 1
	if line == "" { // ibrun begins with one
		return
	}
	c.banner = append(c.banner, line[:min(len(line), maxLine)])
	c.banner = c.banner[max(0, len(c.banner)-maxKept):]
}

// awaitGreeting blocks until ibrun has greeted.
func (c *command) awaitGreeting(deadline time.Time) (g protocol.Greeting, failed *Error) {
	if _, out, err := c.streams(); err != nil || out.SetReadDeadline(deadline) != nil {
		return g, c.failed(os.ErrClosed)
	}
	for c.skipped <= maxBanner {
		line, err := c.readLine()
		if err != nil {
			return g, c.failed(err)
		}
		if g, ok := protocol.DecodeGreeting(line); ok {
			return g, nil
		}
		c.skip(line)
	}
	return g, c.failed(errBanner)
}

// checkVersion returns an error if the ibrun of another host is not the same as this one.
func (c *command) checkVersion(host string, g protocol.Greeting) *Error {
	version := word(buildinfo.Version())
	if g.Protocol == protocol.NodeProtocol && g.Version == version {
		return nil
	}
	return &Error{Host: host, Command: c.String(),
		Reason: fmt.Sprintf("it has ibrun %s (protocol %d), and this host %s (protocol %d)", g.Version, g.Protocol, version,
			protocol.NodeProtocol),
		Remedy: "install the same version on all hosts"}
}

// deliver writes the start message to standard input.
func (c *command) deliver(text []byte, deadline time.Time) error {
	in, _, err := c.streams()
	if err == nil {
		err = in.SetWriteDeadline(deadline)
	}
	if err == nil {
		_, err = in.Write(text)
	}
	if err != nil {
		return fmt.Errorf("it did not read the start message: %w", err)
	}
	return nil
}

// failed ends the command, whose ibrun did not start for this reason, and returns the diagnosis.
func (c *command) failed(why error) *Error {
	c.hangUp()
	limit := exitTimeout
	if errors.Is(why, os.ErrDeadlineExceeded) || errors.Is(why, errBanner) {
		limit = stderrTimeout // it does not do what was expected
	}
	var ended *watcher.Ended
	select {
	case ended = <-c.running.Ended:
	case <-time.After(limit):
		c.running.Kill()
		select {
		case ended = <-c.running.Ended:
		case <-time.After(exitTimeout):
		}
	}
	return c.diagnose(ended, why)
}

// awaitEnd waits until the command has ended, and says how.
func (c *command) awaitEnd() *Error { return c.diagnose(<-c.running.Ended, nil) }

// diagnose describes why the command has failed. ended is nil if it has not ended; why is what was noticed before.
func (c *command) diagnose(ended *watcher.Ended, why error) *Error {
	if ended != nil {
		c.running.Release() // a host that refuses is tried many times
	}
	words := append(c.banner, c.err.last()...)
	if errors.Is(why, errBanner) {
		words = words[:min(len(words), maxGarbage)]
	}
	e := &Error{Host: hostNames(c.hosts), Command: c.String(), Output: words, ended: ended != nil,
		slurm: c.words[0] == "srun"}
	switch {
	case ended == nil:
		e.Reason = "its command does not end"
	case ended.Status.Signaled():
		sig := ended.Status.Signal()
		e.Reason = fmt.Sprintf("%s was killed by signal %d (%s)", c.words[0], sig, unix.SignalName(sig))
	default:
		e.Code = ended.Status.ExitStatus()
		e.Reason = fmt.Sprintf("%s ended with exit code %d", c.words[0], e.Code)
	}
	switch {
	case why == nil || isEnd(why):
	case errors.Is(why, os.ErrDeadlineExceeded):
		e.Reason = "ibrun did not answer in time (--join-timeout)"
	default:
		e.Reason = why.Error()
	}
	e.explain(strings.Join(words, "\n"), c.program)
	e.Output = slices.DeleteFunc(e.Output, func(line string) bool { return line == e.Reason })
	if e.Remedy == "" && why != nil {
		e.Remedy = "run the command by hand: ibrun must answer with a line that begins with ibrun-node"
	}
	return e
}

// isEnd reports whether an error of a stream only says that the command has closed it.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed)
}

// lines are the lines that a command writes to standard error.
type lines struct {
	done chan struct{}   // closed at the end of the stream
	raw  syscall.RawConn // of the stream

	adding atomic.Bool // what was read is being added

	mu   sync.Mutex
	kept []string
	to   func(line string) // nil: they are only kept
}

// readLines starts to read lines, of which it cuts off what is beyond longest bytes, and closes the file at its end.
func readLines(f *os.File, longest int) *lines {
	l := &lines{done: make(chan struct{})}
	l.raw, _ = f.SyscallConn() // it cannot fail: the file is open
	go func() {
		defer close(l.done)
		defer f.Close()
		var rest []byte
		b := make([]byte, 4<<10)
		for {
			n, err := l.read(b)
			rest = append(rest, b[:n]...)
			for {
				line, after, found := bytes.Cut(rest, []byte("\n"))
				if !found && len(rest) < longest && err == nil || len(line) == 0 && !found {
					break
				}
				l.add(strings.TrimSuffix(string(line[:min(len(line), longest)]), "\r"))
				rest = after
			}
			if err != nil {
				return
			}
			l.adding.Store(false)
		}
	}()
	return l
}

func (l *lines) add(line string) {
	l.mu.Lock()
	to := l.to
	if to == nil {
		if m, ok := message.Decode(line); ok { // it is shown within the message that the command has failed
			line = "ibrun on " + m.Host + ": " + m.Lines()[0]
		}
		l.kept = append(l.kept, line[:min(len(line), maxLine)])
		l.kept = l.kept[max(0, len(l.kept)-maxKept):]
	}
	l.mu.Unlock()
	if to != nil {
		to(line)
	}
}

// forward passes further lines to a function, which may block. Those before are still kept: the reason why ibrun has ended on
// the other host may be among them.
func (l *lines) forward(to func(line string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = to
}

// read reads from the stream. It sets adding before bytes leave the pipe.
func (l *lines) read(b []byte) (n int, err error) {
	errPoll := l.raw.Read(func(fd uintptr) bool {
		l.adding.Store(true)
		for n, err = unix.Read(int(fd), b); err == unix.EINTR; {
			n, err = unix.Read(int(fd), b)
		}
		if err == unix.EAGAIN {
			l.adding.Store(false)
			return false
		}
		return true
	})
	if errPoll != nil {
		err = errPoll
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	return max(n, 0), err // n is -1 with an error
}

// unread reports whether bytes have been written that are not added yet.
func (l *lines) unread() bool {
	n := 0
	err := l.raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }) // every pipe can say it
	return err == nil && (n > 0 || l.adding.Load())
}

// last returns the last lines of a command that has ended. Another process may have the stream open and never end it, so last
// only reads what is there.
func (l *lines) last() []string {
	for end := time.Now().Add(exitTimeout); ; {
		wait(l.done, stderrTimeout)
		if !l.unread() || time.Now().After(end) {
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.kept...)
}
