package proctree

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/ibrun/ibrun/internal/cgroup"
)

// OOMCounter counts the processes in the control group of this process that the kernel has killed because memory ran out.
// Where the kernel does not count them, it counts none. All methods accept a nil OOMCounter.
type OOMCounter struct {
	counters string // the file with the counter
	limits   []string

	mu      sync.Mutex
	claimed int64 // how many kills have been explained
}

// NewOOMCounter returns a counter that ignores earlier kills.
func NewOOMCounter() *OOMCounter {
	c := findOOMCounter(cgroup.Self(), func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	})
	if c != nil {
		c.claimed = c.kills()
	}
	return c
}

// findOOMCounter returns the files that count the kills of a group.
func findOOMCounter(f cgroup.Files, exists func(path string) bool) *OOMCounter {
	if d, ok := f.Controller("memory"); ok {
		return &OOMCounter{counters: filepath.Join(d.Path, "memory.oom_control"), limits: d.Upwards("memory.limit_in_bytes")}
	}
	d, ok := f.Unified()
	if !ok {
		return nil
	}
	for _, file := range d.Upwards("memory.events") {
		if exists(file) { // the nearest group for which the controller is enabled
			d.Path = filepath.Dir(file)
			return &OOMCounter{counters: file, limits: d.Upwards("memory.max")}
		}
	}
	return nil
}

// kills returns the value of the counter.
func (c *OOMCounter) kills() int64 {
	text, err := os.ReadFile(c.counters)
	if err != nil {
		return 0 // it cannot be read, so it explains nothing
	}
	return parseOOMKills(string(text))
}

// parseOOMKills returns the number in the line "oom_kill NUMBER".
func parseOOMKills(text string) int64 {
	for line := range strings.Lines(text) {
		if number, ok := strings.CutPrefix(line, "oom_kill "); ok {
			if n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64); err == nil {
				return n
			}
		}
	}
	return 0
}

// Explain returns why a process was killed by SIGKILL if the kernel has killed one since because memory ran out, or an empty
// string. It must be called once for every process that was killed by SIGKILL, when it has exited.
func (c *OOMCounter) Explain() string {
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kills() <= c.claimed {
		return ""
	}
	c.claimed++
	limit := int64(0)
	for _, file := range c.limits {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && n > 0 && n < noLimit && (limit == 0 || n < limit) {
			limit = n
		}
	}
	if limit == 0 {
		return "the kernel ran out of memory"
	}
	return fmt.Sprintf("the kernel ran out of memory; the limit of its control group is %d MiB", limit>>20)
}

// noLimit is below the number that means no limit in control groups of version 1, and above all sizes of memory.
const noLimit = 1 << 60
