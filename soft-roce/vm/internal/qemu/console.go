package qemu

import (
	"bytes"
	"sync"
)

// console keeps the end of what a guest's kernel says.
type console struct {
	mu   sync.Mutex
	last []byte
}

// keepConsole is how many bytes are kept.
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

// end returns the last whole lines, without carriage returns and what terminals would take for commands.
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

// Panic returns the line with which a kernel says that it cannot go on, or "".
func Panic(console string) string {
	const says = "Kernel panic - "
	for line := range bytes.Lines([]byte(console)) {
		if i := bytes.Index(line, []byte(says)); i >= 0 {
			return string(bytes.TrimSpace(line[i:]))
		}
	}
	return ""
}
