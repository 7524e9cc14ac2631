package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Dir is the directory of a control group.
type Dir struct {
	Path string
	Root string // where the mounted part of its hierarchy begins: Path, or a directory above it
}

// Files are the texts that describe the groups of a process.
type Files struct {
	Mounts string // /proc/PID/mountinfo
	Groups string // /proc/PID/cgroup
}

// Self returns the files of this process. Without /proc they are empty.
func Self() (f Files) {
	for name, to := range map[string]*string{"/proc/self/mountinfo": &f.Mounts, "/proc/self/cgroup": &f.Groups} {
		if text, err := os.ReadFile(name); err == nil { // otherwise there is no group to be found
			*to = string(text)
		}
	}
	return f
}

// Unified returns the group in the unified hierarchy (version 2).
func (f Files) Unified() (Dir, bool) {
	for line := range strings.Lines(f.Groups) {
		if path, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); found {
			return f.find(path, func(kind, _ string) bool { return kind == "cgroup2" })
		}
	}
	return Dir{}, false
}

// Controller returns the group in the hierarchy of a controller of version 1.
func (f Files) Controller(name string) (Dir, bool) {
	for line := range strings.Lines(f.Groups) {
		// ID:CONTROLLER,CONTROLLER...:PATH
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) == 3 && slices.Contains(strings.Split(fields[1], ","), name) {
			return f.find(fields[2], func(kind, options string) bool {
				return kind == "cgroup" && slices.Contains(strings.Split(options, ","), name)
			})
		}
	}
	return Dir{}, false
}

// find returns where a group is mounted.
func (f Files) find(path string, matches func(kind, options string) bool) (Dir, bool) {
	for line := range strings.Lines(f.Mounts) {
		// ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS... - TYPE SOURCE OPTIONS
		where, what, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(where), strings.Fields(what)
		if !ok || len(fields) < 5 || len(kind) < 3 || !matches(kind[0], kind[2]) {
			continue
		}
		if below, err := filepath.Rel(fields[3], path); err == nil && filepath.IsLocal(below) {
			return Dir{filepath.Join(fields[4], below), fields[4]}, true
		}
	}
	return Dir{}, false
}

// Upwards returns the files of this name in the directory and in those above it, up to the root.
func (d Dir) Upwards(name string) (files []string) {
	for dir := d.Path; ; dir = filepath.Dir(dir) {
		files = append(files, filepath.Join(dir, name))
		if dir == d.Root || len(dir) <= 1 {
			return files
		}
	}
}

// CPUQuota returns how many processors this process and the others of its groups may use on average. 0: there is no limit.
func CPUQuota() float64 { return Self().cpuQuota(os.ReadFile) }

func (f Files) cpuQuota(read func(name string) ([]byte, error)) (cpus float64) {
	note := func(quota, period string) {
		q, errQuota := strconv.ParseFloat(quota, 64)
		p, errPeriod := strconv.ParseFloat(period, 64)
		if errQuota != nil || errPeriod != nil || q <= 0 || p <= 0 {
			return // "max", or -1: no limit
		}
		if cpus == 0 || q/p < cpus {
			cpus = q / p
		}
	}
	if d, ok := f.Unified(); ok {
		for _, file := range d.Upwards("cpu.max") {
			if text, err := read(file); err == nil { // the controller may be off
				if fields := strings.Fields(string(text)); len(fields) == 2 {
					note(fields[0], fields[1])
				}
			}
		}
	}
	if d, ok := f.Controller("cpu"); ok {
		periods := d.Upwards("cpu.cfs_period_us")
		for i, file := range d.Upwards("cpu.cfs_quota_us") {
			quota, errQuota := read(file)
			period, errPeriod := read(periods[i])
			if errQuota == nil && errPeriod == nil { // the root group has none
				note(strings.TrimSpace(string(quota)), strings.TrimSpace(string(period)))
			}
		}
	}
	return cpus
}
