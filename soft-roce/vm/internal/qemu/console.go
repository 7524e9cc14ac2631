package qemu

import (
	"bytes"
	"sync"
)

// console keeps the end of the console output of a guest.
type console struct {
	mu   sync.Mutex
	last []byte
}

// keepConsole is the number of bytes that are kept.
const keepConsole = 16 << 10

func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = append(c.last, b...)
	if len(c.last) > 2*keepConsole {
		c.last = append([]byte(nil), c.last[len(c.last)-keepConsole:]...)
	}
	return len(b), nil
}

// end returns the last whole lines, without control characters.
func (c *console) end() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := c.last
	if len(text) > keepConsole {
		text = text[len(text)-keepConsole:]
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return clean(text)
}

func clean(text []byte) string {
	return string(bytes.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, text))
}

// Panic returns the line in which the kernel reports a panic, or "".
func Panic(console string) string {
	const prefix = "Kernel panic - "
	for line := range bytes.Lines([]byte(console)) {
		if i := bytes.Index(line, []byte(prefix)); i >= 0 {
			return string(bytes.TrimSpace(line[i:]))
		}
	}
	return ""
}
