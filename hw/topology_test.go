package hw_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ibrun/ibrun/hw"
)

// tree returns the file system of an archive, and the text of the file "want", which is for the test.
func tree(t *testing.T, name string) (fsys fstest.MapFS, want string) {
	t.Helper()
	ar, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	fsys = fstest.MapFS{}
	for _, f := range ar.Files {
		if f.Name == "want" {
			want = strings.TrimSpace(string(f.Data))
			continue
		}
		fsys[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return fsys, want
}

func format(cores [][]int) string {
	var words []string
	for _, core := range cores {
		words = append(words, hw.FormatList(core))
	}
	return strings.Join(words, " ")
}

func TestCoresOfTrees(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no trees: %v", err)
	}
	for _, name := range names {
		fsys, want := tree(t, name)
		top, err := hw.Read(fsys)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var all []int
		for _, pu := range top.PUs {
			all = append(all, pu.ID)
		}
		if got := format(top.CoresOf(all)); got != want {
			t.Errorf("%s: cores are %q, want %q", name, got, want)
		}
	}
}

func TestPULocation(t *testing.T) {
	fsys, _ := tree(t, "testdata/two-packages.txtar")
	top, err := hw.Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	want := hw.PU{ID: 5, Core: 1, L3: 1, Node: 1, Package: 1}
	if got := top.PUs[5]; got != want {
		t.Errorf("PU 5 is %+v, want %+v", got, want)
	}
}

func TestCoresOfSomePUs(t *testing.T) {
	fsys, _ := tree(t, "testdata/two-packages.txtar")
	top, err := hw.Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := format(top.CoresOf([]int{9, 6, 5, 4})), "4 6 5 9"; got != want {
		t.Errorf("cores of 9, 6, 5, 4 are %q, want %q: only allowed PUs, and unknown PUs last", got, want)
	}
	if got, want := format(new(hw.Topology).CoresOf([]int{1, 0, 3})), "0 1 3"; got != want {
		t.Errorf("cores in an unknown topology are %q, want %q", got, want)
	}
}

func TestBadTrees(t *testing.T) {
	for _, c := range []struct {
		name, file, text string
		want             error
	}{
		{"no list of PUs", "sys/devices/system/cpu/online", "", hw.ErrMalformed},
		{"cut", "sys/devices/system/cpu/online", "0-3", hw.ErrMalformed},
		{"endless", "sys/devices/system/cpu/online", "0-4000000000\n", hw.ErrMalformed},
		{"backwards", "sys/devices/system/cpu/online", "3-0\n", hw.ErrMalformed},
		{"letters", "sys/devices/system/cpu/cpu1/topology/core_cpus_list", "0-x\n", hw.ErrMalformed},
		{"package", "sys/devices/system/cpu/cpu1/topology/physical_package_id", "one\n", hw.ErrMalformed},
		{"level", "sys/devices/system/cpu/cpu0/cache/index0/level", "L3\n", hw.ErrMalformed},
		{"nodes", "sys/devices/system/node/online", "0,0\n", hw.ErrMalformed},
		{"absent", "sys/devices/system/cpu/present", "0\n", fs.ErrNotExist},
	} {
		fsys, _ := tree(t, "testdata/bare.txtar")
		if c.name == "absent" {
			delete(fsys, "sys/devices/system/cpu/online")
		}
		fsys[c.file] = &fstest.MapFile{Data: []byte(c.text)}
		if _, err := hw.Read(fsys); !errors.Is(err, c.want) {
			t.Errorf("%s: error is %v, want %v", c.name, err, c.want)
		}
	}
}

func TestFormatList(t *testing.T) {
	for _, c := range []struct {
		ids  []int
		want string
	}{{nil, ""}, {[]int{5}, "5"}, {[]int{3, 1, 2, 8}, "1-3,8"}, {[]int{0, 2, 4}, "0,2,4"}, {[]int{1, 1, 0}, "0-1"}} {
		if got := hw.FormatList(c.ids); got != c.want {
			t.Errorf("FormatList(%v) = %q, want %q", c.ids, got, c.want)
		}
	}
}

// Siblings whose numbers are not adjacent stay together if no level-3 cache is described, as on virtual machines.
func TestCoresOfNoL3(t *testing.T) {
	const cpu = "sys/devices/system/cpu/"
	tree := fstest.MapFS{cpu + "online": {Data: []byte("0-3\n")}}
	for id, siblings := range []string{"0,2", "1,3", "0,2", "1,3"} {
		tree[cpu+"cpu"+strconv.Itoa(id)+"/topology/core_cpus_list"] = &fstest.MapFile{Data: []byte(siblings + "\n")}
	}
	top, err := hw.Read(tree)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := format(top.CoresOf([]int{0, 1, 2})), "0,2 1"; got != want {
		t.Errorf("cores of 0-2: %s, want %s", got, want)
	}
}
