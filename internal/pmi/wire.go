package pmi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The limits of a message. Valid messages are far below them; they bound the memory that a faulty peer can use.
const (
	maxMessage = 64 << 10
	maxArgs    = 64
)

// ErrMalformed means that the other side has sent something that is not a PMI-1 message.
var ErrMalformed = errors.New("malformed message")

// message is one PMI-1 message: its command and its values. Escapes in values are not decoded.
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

// number returns the value of key as a number, or the number absent if the message does not have the key.
func (m *message) number(key string, absent int) (int, error) {
	text := m.get(key)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%w: %s=%s is not a number", ErrMalformed, key, text)
	}
	return n, nil
}

// encode returns the line cmd=... key=value .... keyValues has keys and values alternately; the caller has checked them.
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

// decode decodes one message at the start of b and returns its length in bytes. A length of 0 without an error means that the
// message is incomplete.
func decode(b []byte) (m message, n int, err error) {
	switch {
	case mayHavePrefix(b, "cmd="):
		m, n, err = decodeLine(b)
	case mayHavePrefix(b, "mcmd="):
		n, err = spawnLen(b)
		m.cmd = "spawn"
	default:
		err = fmt.Errorf("%w: starts with %q", ErrMalformed, b[:min(len(b), 16)])
	}
	if err == nil && n == 0 && len(b) >= maxMessage {
		err = fmt.Errorf("%w: longer than %d bytes", ErrMalformed, maxMessage)
	}
	return m, n, err
}

// mayHavePrefix reports whether b begins with prefix, or is shorter and may become such a message.
func mayHavePrefix(b []byte, prefix string) bool {
	n := min(len(b), len(prefix))
	return string(b[:n]) == prefix[:n]
}

func decodeLine(b []byte) (m message, n int, err error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return message{}, 0, nil
	}
	rest := string(b[len("cmd="):end]) // all words of the message are substrings of this copy
	m.cmd, rest = cutWord(rest)
	if m.cmd == "" {
		return message{}, 0, fmt.Errorf("%w: no command", ErrMalformed)
	}
	for rest != "" {
		var word string
		word, rest = cutWord(rest)
		// Words that are not key=value are skipped, as the reference implementation does.
		if key, value, ok := strings.Cut(word, "="); ok {
			m.args = append(m.args, arg{key, value})
		}
		if len(m.args) > maxArgs {
			return message{}, 0, fmt.Errorf("%w: more than %d values", ErrMalformed, maxArgs)
		}
	}
	return m, end + 1, nil
}

// cutWord splits s after its first word. A space ends a word unless a backslash precedes it.
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

// spawnLen returns the length of a spawn request, or 0 if it is incomplete. The request has many lines: for each of totspawns
// programs mcmd=spawn, one key=value per line, and endcmd. The values are not needed, because the server refuses the request.
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
			return 0, fmt.Errorf("%w: mcmd=%.20q", ErrMalformed, value)
		case key == "totspawns":
			total, err = strconv.Atoi(value)
		case key == "spawnssofar":
			sofar, err = strconv.Atoi(value)
		}
		if err != nil {
			return 0, fmt.Errorf("%w: %.40q", ErrMalformed, line)
		}
	}
}

// reader splits a stream into messages. Its buffer stays below twice maxMessage.
type reader struct {
	src io.Reader
	buf []byte // bytes read but not decoded yet
}

// next returns the next message. The error is io.EOF if the stream ends between messages.
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

// checkWord returns an error if some launcher does not transmit s unchanged. Slurm ends a word at a space. MPICH interprets a
// backslash as an escape and rejects an empty value. PMI-2 servers with a PMI-1 interface end a value at a semicolon.
func checkWord(what, s string, limit int) error {
	if s == "" || len(s) > limit {
		return fmt.Errorf("pmi: %s of %d bytes; it must have 1 to %d", what, len(s), limit)
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' || c == '=' || c == ';' || c == '\\' {
			return fmt.Errorf("pmi: %s %.40q contains %q", what, s, c)
		}
	}
	return nil
}

// escape makes one word of s, like MPICH; unescape reverses it. Only the text of an abort is sent in this form.
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
