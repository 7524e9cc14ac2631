package console

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/message"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/printable"
)

// EraseLine erases the terminal line to the right of the cursor. A progress bar leaves the cursor at its left end. So a line
// that is written to a terminal starts with EraseLine, whether there is a bar or not.
const EraseLine = "\x1b[K"

// Streams are ibrun's standard streams. Rank 0 inherits In. The agent inherits Out and Err and forwards the output of ranks to
// them. If output is forwarded between nodes, they are pipes.
type Streams struct {
	In, Out, Err *os.File
	// Host is the name of this host if the streams are shown on another one, and empty otherwise. Lines of ibrun name it.
	Host string

	json   bool           // messages are printed as JSON
	origin message.Origin // with json: of messages that have none
	lines  *lines         // nil: messages are written directly
}

// Attrs are the attributes of a message.
type Attrs = message.Attrs

// WithJSON returns the same streams, to which messages are printed as JSON.
func (s Streams) WithJSON() Streams {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost" // what needs the name reports the error
	}
	s.json, s.origin.Host = true, host
	return s
}

// At returns the same streams for messages that arise on this node of a job. An empty job is not known yet.
func (s Streams) At(job, host string, node int) Streams {
	s.origin = message.Origin{Job: job, Host: host, Node: node}
	return s
}

// JSON reports whether messages are printed as JSON.
func (s Streams) JSON() bool { return s.json }

// Info prints a message about what ibrun does. msg is what has happened, without what differs from case to case.
func (s Streams) Info(msg string, a Attrs) {
	s.Log(&message.Message{Level: slog.LevelInfo, Msg: msg, Attrs: a})
}

// Warn prints a message about something that the user may want to change. The job goes on.
func (s Streams) Warn(msg string, a Attrs) {
	s.Log(&message.Message{Level: slog.LevelWarn, Msg: msg, Attrs: a})
}

// Error prints a message about a reason for which the job fails.
func (s Streams) Error(msg string, a Attrs) {
	s.Log(&message.Message{Level: slog.LevelError, Msg: msg, Attrs: a})
}

// Log prints a message to standard error.
func (s Streams) Log(m *message.Message) {
	if s.json {
		out := *m
		if out.Host == "" {
			out.Origin = s.origin
		}
		s.print(out.JSON(time.Now()))
		return
	}
	for _, line := range m.Lines() {
		s.printLine(line)
	}
}

// printLine prints one line of text to standard error, or several. Control characters in it, which may come from ranks, are
// escaped.
func (s Streams) printLine(text string) {
	erase := ""
	if s.Host == "" && IsTerminal(s.Err) { // otherwise it is a pipe, which may be closed meanwhile
		erase = EraseLine
	}
	who := "ibrun: "
	if s.Host != "" {
		who = "ibrun on " + s.Host + ": "
	}
	s.print([]byte(erase + printable.Text(who+text) + "\n"))
}

// missing returns the line that says how many messages were dropped.
func (s Streams) missing(dropped int) []byte {
	const why = "messages of ibrun are missing here: standard error did not accept them"
	if s.json {
		m := message.Message{Level: slog.LevelWarn, Msg: why, Origin: s.origin, Attrs: Attrs{Dropped: dropped}}
		return m.JSON(time.Now())
	}
	return fmt.Appendf(nil, "ibrun: %d %s\n", dropped, why)
}

// Print writes text to standard error, with control characters escaped.
func (s Streams) Print(text string) { s.print([]byte(printable.Text(text))) }

// print writes text to standard error as it is. The caller must not change text afterwards.
func (s Streams) print(text []byte) {
	if s.lines == nil {
		_ = WriteAll(s.Err, text) // there is no other stream to report an error on
		return
	}
	s.lines.print(text, s.missing)
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// WriteAll writes to a standard stream of ibrun or of the agent, even if it is non-blocking. All processes of a terminal share
// one open file: if a rank makes its standard input non-blocking, the streams of ibrun become non-blocking too.
func WriteAll(f *os.File, data []byte) error {
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

// Ranks returns how a line names these ranks: "rank 3" or "ranks 0-2,5".
func Ranks(ranks []int) string {
	if len(ranks) == 1 {
		return "rank " + strconv.Itoa(ranks[0])
	}
	return "ranks " + hw.FormatList(ranks)
}
