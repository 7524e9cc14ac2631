package benchcmd

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/ibrun/ibrun/internal/buildinfo"
)

// logf prints a line to stderr.
func (c *command) logf(format string, args ...any) {
	fmt.Fprintf(c.stderr, "ibrun bench: "+format+"\n", args...)
}

// logSubjects prints what is compared and the machine.
func (c *command) logSubjects(v *comparison) {
	c.logf("machine: %s", machine())
	for _, p := range v.subjects {
		c.logf("%s %s, built by %s", p.name, p.version, p.built)
	}
	c.logf("median of %d rounds, about %v for each size and round", v.rounds, v.time)
}

// machine describes the processor, the number of usable cores, and the operating system.
func machine() string {
	text := fmt.Sprintf("%s, %d cores, %s", processor(), runtime.NumCPU(), runtime.GOOS)
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		text += " " + strings.TrimSpace(string(release))
	}
	return text
}

// processor returns the model name of the processor if it is known, otherwise the architecture.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(info)) {
		if key, name, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(name)
		}
	}
	return runtime.GOARCH
}

// ibrunVersion returns the version of this program and of Go.
func ibrunVersion() string { return buildinfo.Version() + " (" + runtime.Version() + ")" }
