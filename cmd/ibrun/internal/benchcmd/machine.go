package benchcmd

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// logf prints one of ibrun's own lines.
func (c *command) logf(format string, args ...any) {
	fmt.Fprintf(c.stderr, "ibrun bench: "+format+"\n", args...)
}

// logSubjects tells what is compared, and on what.
func (c *command) logSubjects(v *comparison) {
	c.logf("machine: %s", machine())
	for _, p := range v.subjects {
		c.logf("%s %s, built by %s", p.name, p.version, p.built)
	}
	c.logf("median of %d rounds, about %v for each size and round", v.rounds, v.time)
}

// machine is processor, cores that may be used, and system.
func machine() string {
	text := fmt.Sprintf("%s, %d cores, %s", processor(), runtime.NumCPU(), runtime.GOOS)
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		text += " " + strings.TrimSpace(string(release))
	}
	return text
}

// processor is the name of the processor where the system tells it, otherwise the architecture.
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

// buildVersion is the version of this program and of the Go that built it.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "of unknown version"
	}
	version := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && !strings.Contains(version, s.Value[:min(12, len(s.Value))]) {
			version += " " + s.Value[:min(12, len(s.Value))]
		}
	}
	return version + " (" + info.GoVersion + ")"
}
