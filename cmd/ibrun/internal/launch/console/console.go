package console

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// eraseLine erases what stands right of the cursor. A bar leaves the cursor at its left end, so whoever writes a line to a
// terminal writes this first, and need not know whether there is a bar.
const EraseLine = "\x1b[K"

// Streams are ibrun's standard streams. In is inherited by rank 0, Out and Err by the agent that passes on what
// ranks write.
type Streams struct {
	In, Out, Err *os.File
}

// Say writes one of ibrun's own lines.
func (s Streams) Say(format string, args ...any) {
	erase := ""
	if term.IsTerminal(int(s.Err.Fd())) {
		erase = EraseLine
	}
	_ = WriteAll(s.Err, fmt.Appendf(nil, erase+"ibrun: "+format+"\n", args...)) // there is nowhere else to say it
}

// WriteAll writes to one of ibrun's or the agent's standard streams. A terminal is one file for all who have it: a rank that
// makes its standard input non-blocking makes it so for them too, who have not opened it as such.
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
