package hw_test

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/needtest"
)

var trees = flag.String("trees", "", "a directory of captured trees, such as hwloc's tests/hwloc/linux, to compare as well")

// object is an object of lstopo's XML.
type object struct {
	Type     string   `xml:"type,attr"`
	Index    string   `xml:"os_index,attr"`
	CPUSet   string   `xml:"cpuset,attr"`
	Allowed  string   `xml:"allowed_cpuset,attr"`
	Size     string   `xml:"cache_size,attr"`
	Memory   string   `xml:"local_memory,attr"`
	BusID    string   `xml:"pci_busid,attr"`
	PCI      string   `xml:"pci_type,attr"` // 0200 [15b3:1017] [15b3:0008] 00
	Children []object `xml:"object"`
}

// line formats the comparable properties of an object.
func line(kind, index, cpus string, more ...string) string {
	return strings.Join(append([]string{kind, index, cpus}, more...), " ")
}

// cpus converts hwloc's form of a set to a list. The form is words of 32 bits, highest first; an empty word is 0.
func cpus(t *testing.T, mask string) string {
	t.Helper()
	words := strings.Split(mask, ",")
	var ids []int
	for i, word := range words {
		bits, err := strconv.ParseUint("0"+strings.TrimPrefix(word, "0x"), 16, 64)
		if err != nil {
			t.Fatalf("lstopo's set %q: %v", mask, err)
		}
		for b := range 32 {
			if bits>>b&1 != 0 {
				ids = append(ids, (len(words)-1-i)*32+b)
			}
		}
	}
	return hw.FormatList(ids)
}

// hwlocLines lists the objects of a tree in lstopo's order. An object without a set has that of its parent.
func hwlocLines(t *testing.T, o object, parent string, lines map[string][]string) {
	set := parent
	if o.CPUSet != "" {
		set = cmp.Or(cpus(t, o.CPUSet), parent)
	}
	switch {
	case o.Type == "Machine":
		lines["Machine"] = append(lines["Machine"], line("Machine", "", set, "allowed", cpus(t, o.Allowed)))
	case o.Type == "NUMANode":
		lines[o.Type] = append(lines[o.Type], line(o.Type, o.Index, set, cmp.Or(o.Memory, "0")))
	case strings.HasSuffix(o.Type, "Cache"):
		lines[o.Type] = append(lines[o.Type], line(o.Type, "", set, o.Size))
	case o.Type == "PCIDev" && isComparedClass(o.PCI[:4]):
		f := strings.Fields(o.PCI)
		lines[o.Type] = append(lines[o.Type], line(o.Type, o.BusID, set, f[0], strings.Trim(f[1], "[]")))
	case o.Type == "Package", o.Type == "Die", o.Type == "Core", o.Type == "PU":
		lines[o.Type] = append(lines[o.Type], line(o.Type, o.Index, set))
	}
	for _, child := range o.Children {
		if child.Type != "NUMANode" {
			hwlocLines(t, child, set, lines)
		}
	}
	for _, child := range o.Children { // in logical order memory follows its siblings, though lstopo writes it first
		if child.Type == "NUMANode" {
			hwlocLines(t, child, set, lines)
		}
	}
}

// isComparedClass reports whether class is a PCI class of network, RDMA, GPU or NVMe devices.
func isComparedClass(class string) bool {
	return class[:2] == "02" || class[:2] == "03" || class[:2] == "12" || class == "0c06" || class == "0108"
}

// topologyLines lists the same properties of a topology.
func topologyLines(top *hw.Topology) map[string][]string {
	lines := map[string][]string{}
	add := func(kind, index string, pus []int, more ...string) {
		lines[kind] = append(lines[kind], line(kind, index, hw.FormatList(pus), more...))
	}
	index := func(id int) string {
		if id < 0 {
			return "" // not described
		}
		return strconv.Itoa(id)
	}
	var all []int
	for _, pu := range top.PUs {
		all = append(all, pu.ID)
		add("PU", index(pu.ID), []int{pu.ID})
	}
	add("Machine", "", all, "allowed", hw.FormatList(top.Allowed))
	for _, p := range top.Packages {
		add("Package", index(p.ID), p.PUs)
	}
	for _, d := range top.Dies {
		add("Die", index(d.ID), d.PUs)
	}
	for _, n := range top.Nodes {
		if n.GPU == "" {
			add("NUMANode", index(n.ID), n.Near, fmt.Sprint(n.Memory))
		}
	}
	for _, c := range top.Caches {
		kind := fmt.Sprintf("L%d%sCache", c.Level, map[string]string{"Instruction": "i"}[c.Type])
		add(kind, "", c.PUs, fmt.Sprint(c.Size))
	}
	for _, c := range top.Cores {
		add("Core", index(c.ID), c.PUs)
	}
	for _, d := range top.PCI {
		if d.Class != "" && isComparedClass(d.Class) {
			pus := d.LocalPUs
			if len(pus) == 0 {
				pus = all
			}
			add("PCIDev", d.Address, pus, d.Class, d.ID)
		}
	}
	return lines
}

// lstopo returns the objects that hwloc finds in a tree, or for "/" on this machine.
func lstopo(t *testing.T, dir string) object {
	t.Helper()
	args := []string{"--of", "xml", "--disallowed"}
	if dir != "/" {
		args = append(args, "--if", "fsroot", "--input", dir)
	}
	cmd := exec.Command("lstopo-no-graphics", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), "HWLOC_COMPONENTS=linux,stop") // only sysfs, without cpuid and libraries
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("lstopo %q: %v: %s", args, err, stderr.String())
	}
	var topology struct {
		Machine object `xml:"object"`
	}
	if err := xml.Unmarshal(out, &topology); err != nil {
		t.Fatalf("lstopo %q: %v", args, err)
	}
	return topology.Machine
}

func compareWithHwloc(t *testing.T, name string, machine object, top *hw.Topology) {
	t.Helper()
	want, got := map[string][]string{}, topologyLines(top)
	hwlocLines(t, machine, "", want)
	for kind := range got {
		if want[kind] == nil {
			want[kind] = nil // a kind that hwloc lacks is compared too
		}
	}
	for kind, lines := range want {
		if !slices.Equal(got[kind], lines) {
			t.Errorf("%s: hwloc has %d of kind %s, Read has %d; %s",
				name, len(lines), kind, len(got[kind]), firstDifferences(lines, got[kind]))
		}
	}
}

// firstDifferences returns the first lines that differ.
func firstDifferences(theirs, ours []string) string {
	i := 0
	for i < min(len(theirs), len(ours)) && theirs[i] == ours[i] {
		i++
	}
	return fmt.Sprintf("at %d theirs %q, ours %q", i, theirs[i:min(i+3, len(theirs))], ours[i:min(i+3, len(ours))])
}

func TestHwlocOnThisMachine(t *testing.T) {
	needtest.Program(t, "lstopo-no-graphics", "hwloc-nox")
	for range 10 { // the memory of a virtual machine may change between the two reads
		before, err := hw.Read(os.DirFS("/"))
		if err != nil {
			t.Fatal(err)
		}
		machine := lstopo(t, "/")
		after, err := hw.Read(os.DirFS("/"))
		if err != nil {
			t.Fatal(err)
		}
		if reflect.DeepEqual(before, after) {
			compareWithHwloc(t, "this machine", machine, before)
			return
		}
	}
	t.Error("this machine changes all the time")
}

func TestHwlocOnMachines(t *testing.T) {
	needtest.Program(t, "lstopo-no-graphics", "hwloc-nox")
	all := machines(t)
	dirs, err := filepath.Glob(filepath.Join(*trees, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if *trees == "" {
			break
		}
		tree, err := hw.OpenTree(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tree.Close() })
		all[dir] = tree
	}
	compares := map[string]int{}
	for name, tree := range all {
		t.Run(name, func(t *testing.T) {
			top, err := hw.Read(tree)
			if err != nil {
				t.Fatal(err)
			}
			for kind, lines := range topologyLines(top) {
				compares[kind] += len(lines)
			}
			dir := name
			if !slices.Contains(dirs, dir) {
				dir = filepath.Join(t.TempDir(), "root")
				if err := os.CopyFS(dir, readable{tree}); err != nil {
					t.Fatal(err)
				}
			}
			compareWithHwloc(t, name, lstopo(t, dir), top)
			if dir == name {
				return
			}
			var archive bytes.Buffer
			if err := hw.Capture(&archive, tree); err != nil {
				t.Fatal(err)
			}
			captured := t.TempDir()
			untar(t, &archive, captured)
			compareWithHwloc(t, name+", captured", lstopo(t, captured), top)
		})
	}
	for _, kind := range []string{"Machine", "Package", "Die", "NUMANode", "L3Cache", "L2Cache", "L1Cache", "L1iCache", "Core", "PU",
		"PCIDev"} {
		if compares[kind] < 2 {
			t.Errorf("the machines have %d of kind %s, so nothing was compared", compares[kind], kind)
		}
	}
}

// readable is a tree in which files that cannot be read are empty.
type readable struct{ fs.FS }

func (r readable) Open(name string) (fs.File, error) {
	f, err := r.FS.Open(name)
	if errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EACCES) {
		return fstest.MapFS{"empty": {}}.Open("empty")
	}
	return f, err
}

func (r readable) ReadLink(name string) (string, error)   { return fs.ReadLink(r.FS, name) }
func (r readable) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(r.FS, name) }

func untar(t *testing.T, archive io.Reader, dir string) {
	t.Helper()
	cmd := exec.Command("tar", "xzf", "-", "-C", dir)
	cmd.Stdin = archive
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", cmd, err, out)
	}
}
