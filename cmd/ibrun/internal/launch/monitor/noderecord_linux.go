package monitor

import (
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/report"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/buildinfo"
)

// NodeRecorder describes this node for the report. It must be created before the ranks are started.
type NodeRecorder struct {
	task  *protocol.Task
	ports []report.Port // at the start of the job
}

// NewNodeRecorder returns nil if no report is enabled.
func NewNodeRecorder(t *protocol.Task, enabled bool) *NodeRecorder {
	if !enabled {
		return nil
	}
	return &NodeRecorder{t, report.ReadPorts(os.DirFS("/"))}
}

// Record returns the record of this node. It must be called when the ranks have exited.
func (rec *NodeRecorder) Record() *report.Node {
	t := rec.task
	n := &report.Node{Name: t.Host, Version: buildinfo.Version(), Kernel: kernel(), Processor: processor(),
		Environment: report.Environment(getenv(slices.Concat(t.Env, commonEnv(t)))),
		Ports:       report.PortsSince(rec.ports, report.ReadPorts(os.DirFS("/"))), Ranks: []report.Place{}}
	if allowed, err := hw.Affinity(); err == nil { // otherwise the number is unknown
		n.PUs = len(allowed)
	}
	for _, r := range t.Ranks {
		place := report.Place{Rank: r.Rank, Program: r.Program, Shares: r.Oversubscribed, Device: strings.Join(r.Devices, ",")}
		if len(r.PUs) > 0 {
			place.Bound = hw.FormatList(r.PUs)
		}
		if len(r.Memory) > 0 {
			place.Memory = hw.FormatList(r.Memory)
		}
		n.Ranks = append(n.Ranks, place)
	}
	return n
}

// commonEnv returns the variables that the user has set for all programs.
func commonEnv(t *protocol.Task) []string {
	if len(t.Programs) == 1 {
		return t.Programs[0].Env
	}
	return nil
}

// getenv returns a function like os.Getenv for variables NAME=VALUE. Of a variable that is set
// twice, the last value counts, as for the ranks.
func getenv(env []string) func(name string) string {
	values := map[string]string{}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		values[name] = value
	}
	return func(name string) string { return values[name] }
}

// kernel returns the name and version of the operating system, or an empty string.
func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) + " " +
		unix.ByteSliceToString(u.Machine[:])
}

// processor returns the model name of the CPU, or an empty string if the kernel does not report it.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
