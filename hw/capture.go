package hw

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// capturePatterns are the files of a capture. A link on the path of a file is stored as a link, and its target is stored
// too.
var capturePatterns = []string{
	"proc/cpuinfo", "proc/meminfo", "proc/mounts", "proc/version", "proc/cmdline", "proc/self/cgroup", "proc/self/cpuset",
	"proc/self/status", "proc/self/limits", "proc/driver/nvidia/gpus/*/numa_status", "proc/driver/nvidia/gpus/*/information",
	"proc/sys/kernel/numa_balancing", "proc/sys/vm/zone_reclaim_mode", "proc/sys/vm/nr_hugepages",
	"sys/devices/system/cpu/*", "sys/devices/system/cpu/smt/*", "sys/devices/system/cpu/cpu*/cpu_capacity",
	"sys/devices/system/cpu/cpu*/online", "sys/devices/system/cpu/cpu*/topology/*",
	"sys/devices/system/cpu/cpu*/cache/index*/*", "sys/devices/system/cpu/cpu*/cpufreq/base_frequency",
	"sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq", "sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
	"sys/devices/cpu_core/cpus", "sys/devices/cpu_atom/cpus", "sys/devices/cpu_lowpower/cpus",
	"sys/devices/system/node/*", "sys/devices/system/node/node*/cpumap", "sys/devices/system/node/node*/cpulist",
	"sys/devices/system/node/node*/meminfo", "sys/devices/system/node/node*/distance",
	"sys/devices/system/node/node*/access*/initiators/*", "sys/devices/system/node/node*/hugepages/*/nr_hugepages",
	"sys/kernel/mm/hugepages/*/*", "sys/kernel/mm/transparent_hugepage/enabled", "sys/kernel/iommu_groups/*/type",
	"sys/bus/pci/devices/*/*", "sys/bus/pci/devices/*/drm/*", "sys/bus/pci/devices/*/nvme/*", "sys/bus/pci/devices/*/net/*",
	"sys/bus/pci/devices/*/infiniband/*",
	"sys/class/net/*/*", "sys/class/infiniband/*/*", "sys/class/infiniband/*/ports/*/*",
	"sys/class/infiniband/*/ports/*/gids/*", "sys/class/infiniband/*/ports/*/pkeys/*",
	"sys/class/infiniband/*/ports/*/gid_attrs/*/*", "sys/class/infiniband/*/ports/*/counters/*",
	"sys/class/infiniband/*/ports/*/hw_counters/*", "sys/class/infiniband/*/hw_counters/*",
	"sys/class/infiniband_verbs/*", "sys/class/infiniband_verbs/*/*", "sys/class/infiniband_mad/*",
	"sys/class/infiniband_mad/*/*", "sys/class/misc/rdma_cm/*", "sys/module/*/version",
}

// skippedNames are files that do not describe the machine: they are large, change with each read, or have an effect when they
// are read.
var skippedNames = []string{"rom", "remove", "rescan", "reset", "vpd", "msi_bus", "enable", "broken_parity_status",
	"d3cold_allowed", "reset_method", "uartclk"}

// Capture writes the tree of a node as a tar.gz archive. It contains every file that [Read] reads, and after unpacking
// also those that lstopo --input needs. It contains no times and owners, so equal trees give equal archives. Files that
// cannot be read are listed in the archive's file "unreadable". Capture returns only errors of writing.
//
// The archive contains addresses of network interfaces and ports, and the kernel's command line.
func Capture(w io.Writer, fsys fs.FS) error {
	zipped := gzip.NewWriter(w)
	c := &captureWriter{fsys: fsys, w: tar.NewWriter(zipped), seen: map[string]bool{}}
	for _, pattern := range capturePatterns {
		c.addMatches(".", strings.Split(pattern, "/"))
	}
	c.addCpuset()
	if len(c.unreadable) > 0 {
		c.writeFile("unreadable", []byte(strings.Join(c.unreadable, "\n")+"\n"))
	}
	if err := cmp.Or(c.err, c.w.Close(), zipped.Close()); err != nil {
		return fmt.Errorf("hw: write captured tree: %w", err)
	}
	return nil
}

// captureWriter writes the archive of a Capture.
type captureWriter struct {
	fsys       fs.FS
	w          *tar.Writer
	seen       map[string]bool
	unreadable []string
	err        error // the first error of writing
}

// addCpuset adds the cpuset files of the cgroup of this process.
func (c *captureWriter) addCpuset() {
	r := &cpuReader{reader: reader{fsys: c.fsys}}
	mount, prefix, suffix := r.findCpusetMount()
	if mount == "" {
		return
	}
	mount = strings.TrimPrefix(mount, "/")
	c.addMatches(".", strings.Split(mount+"/cgroup.controllers", "/"))
	dir := path.Join(mount, path.Clean("/"+r.readCpusetPath()))
	for _, name := range []string{"cpus", "mems"} {
		c.addMatches(".", strings.Split(path.Join(dir, prefix+name+suffix), "/"))
	}
}

// addMatches adds the files that match a pattern below dir. dir must have no link in its path.
func (c *captureWriter) addMatches(dir string, pattern []string) {
	names := pattern[:1]
	if strings.Contains(names[0], "*") {
		entries, err := fs.ReadDir(c.fsys, dir)
		c.noteUnreadable(dir, err)
		names = nil
		for _, entry := range entries {
			if ok, err := path.Match(pattern[0], entry.Name()); ok && err == nil {
				names = append(names, entry.Name())
			}
		}
	}
	for _, name := range names {
		at := path.Join(dir, name)
		if to, err := fs.ReadLink(c.fsys, at); err == nil && !strings.HasPrefix(at, "proc/") { // links of proc differ per process
			c.writeEntry(&tar.Header{Typeflag: tar.TypeSymlink, Name: at, Linkname: to, Mode: 0o777}, nil)
			at = path.Join(dir, to)
			if len(pattern) == 1 || !fs.ValidPath(at) {
				continue // another pattern may match the target
			}
		}
		if len(pattern) > 1 {
			c.addMatches(at, pattern[1:])
			continue
		}
		c.addFile(at)
	}
}

// addFile adds a file, or the name of a directory.
func (c *captureWriter) addFile(name string) {
	base := path.Base(name)
	if c.seen[name] || c.err != nil || slices.Contains(skippedNames, base) || strings.HasPrefix(base, "resource") {
		return
	}
	st, err := fs.Stat(c.fsys, name)
	c.noteUnreadable(name, err)
	switch {
	case err != nil:
	case st.IsDir():
		c.writeEntry(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}, nil)
	case st.Mode().IsRegular() && st.Mode().Perm()&0o444 != 0:
		limit := int64(maxTreeFile)
		if base == "config" {
			limit = 256 // the configuration space before PCI Express, which lstopo reads
		}
		data, err := readHead(c.fsys, name, limit)
		c.noteUnreadable(name, err)
		if err == nil {
			c.writeFile(name, data)
		}
	}
}

// noteUnreadable records a file that exists but cannot be read.
func (c *captureWriter) noteUnreadable(name string, err error) {
	if err == nil || notProvided(err) {
		return
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	if line := fmt.Sprintf("%s: %v", name, err); !slices.Contains(c.unreadable, line) {
		c.unreadable = append(c.unreadable, line)
	}
}

// writeFile writes a regular file.
func (c *captureWriter) writeFile(name string, data []byte) {
	c.writeEntry(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o444}, data)
}

// writeEntry writes an entry unless the archive has it already. Long names have one format on every system.
func (c *captureWriter) writeEntry(h *tar.Header, data []byte) {
	if c.seen[strings.TrimSuffix(h.Name, "/")] || c.err != nil {
		return
	}
	c.seen[strings.TrimSuffix(h.Name, "/")] = true
	h.Format = tar.FormatPAX
	if c.err = c.w.WriteHeader(h); c.err == nil {
		_, c.err = c.w.Write(data)
	}
}
