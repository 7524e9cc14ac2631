package pmi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Limits of what is read. No correct message comes near them, but what comes in is not trusted.
const (
	maxMessage = 64 << 10
	maxArgs    = 64
)

// errWire says that bytes are no PMI-1 message.
var errWire = errors.New("malformed message")

// message is one PMI-1 message: its command and the values that came with it, as written, escapes included.
type message struct {
	cmd  string
	args []arg
}

type arg struct{ key, value string }

// get returns the value of key, or "".
func (m *message) get(key string) string {
	for _, a := range m.args {
		if a.key == key {
			return a.value
		}
	}
	return ""
}

// number returns the value of key as a number, or absent if the message does not have key.
func (m *message) number(key string, absent int) (int, error) {
	text := m.get(key)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%w: %s=%s is not a number", errWire, key, text)
	}
	return n, nil
}

// encode makes the line cmd=... key=value ... from keys and values in turn. The words are sound already.
func encode(cmd string, keyValues ...string) []byte {
	line := append([]byte("cmd="), cmd...)
	for i := 0; i < len(keyValues); i += 2 {
		line = append(line, ' ')
		line = append(line, keyValues[i]...)
		line = append(line, '=')
		line = append(line, keyValues[i+1]...)
	}
	return append(line, '\n')
}

// decode takes one message from the start of b and returns how many bytes it was. Zero bytes and no error mean that the
// message goes on after b.
func decode(b []byte) (m message, n int, err error) {
	switch {
	case hasStart(b, "cmd="):
		m, n, err = decodeLine(b)
	case hasStart(b, "mcmd="):
		n, err = spawnLen(b)
		m.cmd = "spawn"
	default:
		err = fmt.Errorf("%w: starts with %q", errWire, b[:min(len(b), 16)])
	}
	if err == nil && n == 0 && len(b) >= maxMessage {
		err = fmt.Errorf("%w: longer than %d bytes", errWire, maxMessage)
	}
	return m, n, err
}

// hasStart tells whether b starts with prefix or, as far as it goes, may yet.
func hasStart(b []byte, prefix string) bool {
	n := min(len(b), len(prefix))
	return string(b[:n]) == prefix[:n]
}

func decodeLine(b []byte) (m message, n int, err error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return message{}, 0, nil
	}
	rest := string(b[len("cmd="):end]) // the message's words share this one copy
	m.cmd, rest = cutWord(rest)
	if m.cmd == "" {
		return message{}, 0, fmt.Errorf("%w: no command", errWire)
	}
	for rest != "" {
		var word string
		word, rest = cutWord(rest)
		// Words that are not key=value are skipped, as the reference implementation does.
		if key, value, ok := strings.Cut(word, "="); ok {
			m.args = append(m.args, arg{key, value})
		}
		if len(m.args) > maxArgs {
			return message{}, 0, fmt.Errorf("%w: more than %d values", errWire, maxArgs)
		}
	}
	return m, end + 1, nil
}

// cutWord splits s after its first word. A space ends a word unless a backslash stands before it.
func cutWord(s string) (word, rest string) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case ' ':
			return s[:i], strings.TrimLeft(s[i:], " ")
		}
	}
	return s, ""
}

// spawnLen returns the length of a spawn request, which has many lines: for each of totspawns programs mcmd=spawn, one
// key=value per line, endcmd. It is zero if the request goes on after b. What it asks for is of no interest here.
func spawnLen(b []byte) (int, error) {
	total, sofar := 0, 0
	for n := 0; ; {
		end := bytes.IndexByte(b[n:], '\n')
		if end < 0 {
			return 0, nil
		}
		line := string(b[n : n+end])
		n += end + 1
		key, value, _ := strings.Cut(line, "=")
		var err error
		switch {
		case line == "endcmd" && sofar >= total:
			return n, nil
		case key == "mcmd" && value != "spawn":
			return 0, fmt.Errorf("%w: mcmd=%.20q", errWire, value)
		case key == "totspawns":
			total, err = strconv.Atoi(value)
		case key == "spawnssofar":
			sofar, err = strconv.Atoi(value)
		}
		if err != nil {
			return 0, fmt.Errorf("%w: %.40q", errWire, line)
		}
	}
}

// reader cuts a stream into messages. Its memory stays below twice maxMessage.
type reader struct {
	src io.Reader
	buf []byte // what was read and is not decoded yet
}

// next returns the next message. Its error is io.EOF if the stream ends between messages.
func (r *reader) next() (message, error) {
	for {
		m, n, err := decode(r.buf)
		if err != nil || n > 0 {
			r.buf = append(r.buf[:0], r.buf[n:]...)
			return m, err
		}
		if len(r.buf) == cap(r.buf) {
			r.buf = append(make([]byte, 0, max(1024, 2*cap(r.buf))), r.buf...)
		}
		n, err = r.src.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		if n > 0 || err == nil {
			continue
		}
		if err == io.EOF && len(r.buf) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return message{}, err
	}
}

// checkWord tells whether every launcher passes s on as it is: Slurm ends a word at a space, MPICH takes a
// backslash for an escape and no value for an error, and PMI-2 servers behind a PMI-1 front end values at a
// semicolon.
func checkWord(what, s string, limit int) error {
	if s == "" || len(s) > limit {
		return fmt.Errorf("pmi: %s of %d bytes, want 1 to %d", what, len(s), limit)
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' || c == '=' || c == ';' || c == '\\' {
			return fmt.Errorf("pmi: %s %.40q contains %q", what, s, c)
		}
	}
	return nil
}

// escape makes one word of s, as MPICH does; unescape takes it back. Only the text of an abort travels so.
func escape(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c == '\\' || c == ' ':
			b.WriteByte('\\')
		case c < ' ' || c == 0x7f: // a line break would end the message
			b.WriteByte('\\')
			c = ' '
		}
		b.WriteByte(c)
	}
	return b.String()
}

func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
