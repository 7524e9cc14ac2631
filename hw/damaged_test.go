package hw_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/hw/hwtest"
)

// patchedTree is a tree in which one file is replaced.
type patchedTree struct {
	fs.ReadLinkFS
	name string
	file fs.FS // contains the replacement with the name x, or nil
	err  error
}

func (m patchedTree) Open(name string) (fs.File, error) {
	switch {
	case name != m.name:
		return m.ReadLinkFS.Open(name)
	case m.file != nil:
		return m.file.Open("x")
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: m.err}
}

// ReadDir makes fs.ReadDir use Open, for the replaced file as well.
func (m patchedTree) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == m.name && m.err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: m.err}
	}
	return fs.ReadDir(m.ReadLinkFS, name)
}

const (
	cpu  = "sys/devices/system/cpu/"
	node = "sys/devices/system/node/"
	pci  = "sys/bus/pci/devices/0000:13:00.0/"
)

// Read fails if a file needed for process placement is damaged. Other damage is listed in Problems of the part concerned.
func TestDamagedFiles(t *testing.T) {
	tree, ok := hwtest.Tree(t, "testdata/machines/two-sockets.txtar").(fs.ReadLinkFS)
	if !ok {
		t.Fatal("the tree has no links")
	}
	huge := strings.Repeat("0,", 1<<16)
	for _, c := range []struct {
		file, text string
		err        error
		fails      bool
		message    string // of the error, or among the problems
	}{
		{file: cpu + "online", text: huge, fails: true, message: "longer than 65536 bytes"},
		{file: cpu + "online", text: "0-8192\n", fails: true, message: `"0-8192" in list`},
		{file: cpu + "online", err: syscall.EACCES, fails: true,
			message: "hw: read sys/devices/system/cpu/online: permission denied"},
		{file: cpu + "online", err: syscall.ELOOP, fails: true, message: "too many levels of symbolic links"},
		{file: cpu + "online", err: syscall.EIO, fails: true, message: "input/output error"},
		{file: cpu + "cpu0/topology/core_cpus", text: "xyz\n", fails: true,
			message: `core_cpus: hw: malformed sysfs file: "xyz" in mask`},
		{file: cpu + "cpu0/topology/core_cpus", text: "", fails: true, message: "has no end"},
		{file: cpu + "cpu0/topology/package_cpus", err: syscall.EIO, fails: true, message: "package_cpus: input/output error"},
		{file: cpu + "cpu0/topology/physical_package_id", text: "99999999999\n", fails: true, message: "number"},
		{file: cpu + "cpu0/cache/index3/level", text: "three\n", fails: true, message: "number"},
		{file: node + "node1/cpumap", text: "1,\n", fails: true, message: "in mask"},
		{file: node + "online", text: "1-0\n", fails: true, message: "in list"},

		{file: cpu + "cpu0/cache/index3/size", text: "big\n", message: `index3/size: hw: malformed sysfs file: size "big\n"`},
		{file: cpu + "cpu0/topology/core_id", text: "\n", fails: true, message: "core_id"},
		{file: node + "node1/meminfo", text: "Node 1 MemTotal: lots\n", message: "memory"},
		{file: node + "node1/meminfo", text: "", message: "meminfo: hw: malformed sysfs file: memory"},
		{file: node + "node0/distance", text: "10 x\n", message: "distance"},
		{file: node + "node1/cpumap", text: "ffff\n", message: "claims PUs that another node has"},
		{file: "proc/cpuinfo", err: syscall.EIO, message: "proc/cpuinfo: input/output error"},
		{file: pci + "class", text: huge, message: pci + "class: hw: malformed sysfs file: longer than 65536 bytes"},
		{file: pci + "class", text: "0x02\n", message: "class"},
		{file: pci + "vendor", err: syscall.ENODEV, message: pci + "vendor: no such device"},
		{file: pci + "numa_node", text: "9\n", message: "NUMA node that does not exist"},
		{file: pci + "numa_node", text: "-2\n", message: "numa_node"},
		{file: pci + "current_link_speed", text: "fast\n", message: "link speed"},
		{file: pci + "current_link_width", text: "many\n", message: "current_link_width"},
		{file: "sys/class/net/eth0/mtu", text: "1e9\n", message: "mtu"},
		{file: "sys/class/net/eth0/operstate", err: syscall.EIO, message: "operstate: input/output error"},
		{file: "sys/bus/pci/devices", err: syscall.EACCES, message: "sys/bus/pci/devices: permission denied"},
		{file: "sys/class/infiniband", err: syscall.EIO, message: "sys/class/infiniband: input/output error"},
	} {
		m := patchedTree{ReadLinkFS: tree, name: c.file, err: c.err}
		if c.err == nil {
			file, err := hwtest.FromText(fmt.Appendf(nil, "-- y --\n-- x --\n%s", c.text))
			if err != nil {
				t.Fatal(err)
			}
			m.file = file
		}
		top, err := hw.Read(m)
		message := asJSON(t, top)
		if err != nil {
			message = err.Error()
		} else if !bytes.Contains([]byte(message), []byte(`"problems"`)) {
			message = "nothing"
		}
		message = strings.NewReplacer(`\"`, `"`, `\\n`, `\n`).Replace(message)
		if (err != nil) != c.fails || !strings.Contains(message, c.message) {
			t.Errorf("%s with %.20q or %v: failed is %t, want %t; the message is %.300s, want %q in it",
				c.file, c.text, c.err, err != nil, c.fails, message, c.message)
		}
	}
}

// If PUs contradict each other about what they share, the first one counts. Problems reports it, with OnlyPUs too.
func TestContradictions(t *testing.T) {
	tree, ok := hwtest.Tree(t, "testdata/machines/two-sockets.txtar").(fs.ReadLinkFS)
	if !ok {
		t.Fatal("the tree has no links")
	}
	for _, c := range []struct{ file, text, want string }{
		{cpu + "cpu1/topology/package_cpus", "ffff\n",
			cpu + "cpu1: claims to share its package with PUs 0,2,4,6,8,10,12,14, which claim another"},
		{cpu + "cpu1/topology/core_cpus", "0003\n", cpu + "cpu1: claims to share its core with PUs 0, which claim another"},
		{cpu + "cpu1/cache/index3/shared_cpu_map", "000f\n",
			cpu + "cpu1: claims to share its L3 cache with PUs 0,2, which claim another"},
		{node + "node1/cpumap", "ffff\n", node + "node1/cpulist: claims PUs that another node has; it is left out"},
	} {
		m := patchedTree{ReadLinkFS: tree, name: c.file, file: fstest.MapFS{"x": {Data: []byte(c.text)}}}
		for name, options := range map[string][]hw.Option{"all": nil, "OnlyPUs": {hw.OnlyPUs}} {
			top, err := hw.Read(m, options...)
			if err != nil || len(top.Problems) == 0 || top.Problems[0] != c.want || len(top.PUs) != 16 {
				t.Errorf("%s with %q, %s: %v, %+v; want %q", c.file, c.text, name, err, top, c.want)
			}
		}
	}
}

// Only the list of online PUs is required. Other missing files are not problems, because kernels differ.
func TestMissingFiles(t *testing.T) {
	tree, ok := hwtest.Tree(t, "testdata/machines/two-sockets.txtar").(fs.ReadLinkFS)
	if !ok {
		t.Fatal("the tree has no links")
	}
	digits := regexp.MustCompile("[0-9]+")
	tried := map[string]bool{} // one of each kind
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		kind := digits.ReplaceAllString(name, "")
		if err != nil || !entry.Type().IsRegular() || tried[kind] {
			return err
		}
		tried[kind] = true
		top, readErr := hw.Read(patchedTree{ReadLinkFS: tree, name: name, err: fs.ErrNotExist})
		if readErr != nil || len(top.PUs) != 16 || len(top.Problems) != 0 {
			t.Errorf("without %s: %v", name, readErr)
		}
		return nil
	})
	if err != nil || len(tried) < 50 {
		t.Errorf("tried %d files, %v", len(tried), err)
	}
}

// A tree in a directory may contain files that block, and links out of the tree.
func TestDirectoryTree(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "m"), hwtest.Tree(t, "testdata/machines/two-sockets.txtar")); err != nil {
		t.Fatal(err)
	}
	replace := func(name string, with func(name string) error) {
		t.Helper()
		name = filepath.Join(dir, "m", name)
		if err := errors.Join(os.Remove(name), with(name)); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to string) func(string) error { return func(name string) error { return os.Symlink(to, name) } }
	replace(node+"node0/meminfo", link("/proc/meminfo"))
	replace(node+"node1/meminfo", link("meminfo"))
	replace(node+"node0/distance", link("/dev/zero"))
	replace(cpu+"cpu0/cache/index0/size", func(name string) error { return os.Mkdir(name, 0o777) })
	replace(cpu+"cpu0/cache/index1/size", func(name string) error { return fifo(t, name) })
	tree, err := hw.OpenTree(filepath.Join(dir, "m"))
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	top, err := hw.Read(tree)
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Problems) != 5 || top.Nodes[0].Memory != 0 {
		t.Errorf("problems are %q, want five, one for each file", top.Problems)
	}
	if _, err := hw.OpenTree(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening a missing tree: %v", err)
	}
}
