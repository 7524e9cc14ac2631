package benchcmd

import (
	"cmp"
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

// processor returns the model name of the processor, and on x86 its family and model, because virtual machines often have a name
// without them. If the name is not known it returns the architecture.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	return processorName(string(info))
}

// processorName returns what processor returns, given /proc/cpuinfo.
func processorName(info string) string {
	values := map[string]string{}
	for line := range strings.Lines(info) {
		key, value, ok := strings.Cut(line, ":")
		if key = strings.TrimSpace(key); ok && values[key] == "" { // the first processor
			values[key] = strings.TrimSpace(value)
		}
	}
	name := cmp.Or(values["model name"], runtime.GOARCH)
	if values["cpu family"] != "" && values["model"] != "" {
		name += fmt.Sprintf(" (family %s, model %s)", values["cpu family"], values["model"])
	}
	return name
}

// ibrunVersion returns the version of this program and of Go.
func ibrunVersion() string { return buildinfo.Version() + " (" + runtime.Version() + ")" }
