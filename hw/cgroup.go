package hw

import (
	"path"
	"slices"
	"strings"
)

// readCgroup reads the cpuset of this process: the mount point of the cpuset hierarchy, and the path in it.
func (r *cpuReader) readCgroup() *Cgroup {
	mount, prefix, suffix := r.findCpusetMount()
	if mount == "" {
		return nil
	}
	g := &Cgroup{Path: r.readCpusetPath()}
	dir := strings.TrimPrefix(path.Join(mount, path.Clean("/"+g.Path)), "/") + "/"
	if pus, ok := r.readList(dir + prefix + "cpus" + suffix); ok {
		g.PUs = intersect(r.online, pus)
	}
	g.Nodes, _ = r.readList(dir + prefix + "mems" + suffix)
	return g
}

// findCpusetMount returns the mount point of the cpuset hierarchy, and the prefix and suffix of its file names. It uses
// cgroup version 2 if that has cpusets, otherwise version 1, otherwise the cpuset file system that is older than
// cgroups.
func (r *cpuReader) findCpusetMount() (dir, prefix, suffix string) {
	data, err := readHead(r.fsys, "proc/mounts", 1<<20)
	if !notProvided(err) {
		r.addProblem("proc/mounts", err)
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 4 || !path.IsAbs(f[1]) {
			continue
		}
		dir, options := path.Clean(unescape(f[1])), strings.Split(f[3], ",")
		switch {
		case f[2] == "cgroup2":
			controllers, _ := r.readText(strings.TrimPrefix(dir, "/") + "/cgroup.controllers")
			if slices.Contains(strings.Fields(controllers), "cpuset") {
				return dir, "cpuset.", ".effective"
			}
		case f[2] == "cpuset", f[2] == "cgroup" && slices.Contains(options, "cpuset") && slices.Contains(options, "noprefix"):
			return dir, "", ""
		case f[2] == "cgroup" && slices.Contains(options, "cpuset"):
			return dir, "cpuset.", ""
		}
	}
	return "", "", ""
}

// unescape decodes the octal escapes of blanks and backslashes in /proc/mounts.
func unescape(name string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(name)
}

// readCpusetPath returns the path of this process in the cpuset hierarchy.
func (r *cpuReader) readCpusetPath() string {
	if text, ok := r.readText("proc/self/cpuset"); ok {
		return strings.TrimSuffix(text, "\n")
	}
	text, _ := r.readText("proc/self/cgroup")
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		if controllers == "" || slices.Contains(strings.Split(controllers, ","), "cpuset") {
			return group
		}
	}
	return "/"
}
