package console

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

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

	lines *lines // nil: Printf writes directly
}

// Printf writes one line of ibrun itself to standard error, or several. Control characters in it, which may come from ranks, are
// escaped.
func (s Streams) Printf(format string, args ...any) {
	erase := ""
	if s.Host == "" && IsTerminal(s.Err) { // otherwise it is a pipe, which may be closed meanwhile
		erase = EraseLine
	}
	who := "ibrun: "
	if s.Host != "" {
		who = "ibrun on " + s.Host + ": "
	}
	s.Print([]byte(erase + printable.Text(who+fmt.Sprintf(format, args...)) + "\n"))
}

// Print writes text to standard error. The caller must not change text afterwards.
func (s Streams) Print(text []byte) {
	if s.lines == nil {
		_ = WriteAll(s.Err, text) // there is no other stream to report an error on
		return
	}
	s.lines.print(text)
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
