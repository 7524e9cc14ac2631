package hw_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/hw/hwtest"
)

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Read returns the same for this machine and for its capture.
func TestCaptureOfThisMachine(t *testing.T) {
	read := func(tree fs.FS) *hw.Topology {
		t.Helper()
		topology, err := hw.Read(tree)
		if err != nil {
			t.Fatal(err)
		}
		for i := range topology.Nodes { // the memory of a virtual machine may change at any time
			topology.Nodes[i].Memory = 0
		}
		return topology
	}
	for {
		want := read(os.DirFS("/"))
		var archive bytes.Buffer
		if err := hw.Capture(&archive, os.DirFS("/")); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(read(os.DirFS("/")), want) {
			continue // a device came or went meanwhile
		}
		tree, err := hw.Unpack(&archive)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(tree); !reflect.DeepEqual(got, want) {
			t.Errorf("the capture reads\n%s\nwant\n%s", asJSON(t, got), asJSON(t, want))
		}
		return
	}
}

// For every machine Read returns the same after a capture, and two captures are equal.
func TestCaptureOfMachines(t *testing.T) {
	for name, tree := range machines(t) {
		want, err := hw.Read(tree)
		if err != nil {
			t.Fatal(err)
		}
		var first, second bytes.Buffer
		if err := errors.Join(hw.Capture(&first, tree), hw.Capture(&second, tree)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%s: two captures differ", name)
		}
		again, err := hw.Unpack(&first)
		if err != nil {
			t.Fatal(err)
		}
		got, err := hw.Read(again)
		if err != nil {
			t.Fatal(err)
		}
		if name == "container" { // unreadable files are left out and listed
			noted, err := fs.ReadFile(again, "unreadable")
			if err != nil || !strings.Contains(string(noted), "0000:51:00.0/class: input/output error") {
				t.Errorf("unreadable says %q, %v", noted, err)
			}
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the capture reads\n%s\nwant\n%s", name, asJSON(t, got), asJSON(t, want))
		}
	}
}

func TestUnpackPrefixes(t *testing.T) {
	var archive bytes.Buffer
	if err := hw.Capture(&archive, hwtest.Tree(t, "testdata/machines/capacity.txtar")); err != nil {
		t.Fatal(err)
	}
	whole := archive.Bytes()
	for n := range len(whole) {
		if _, err := hw.Unpack(bytes.NewReader(whole[:n])); err == nil {
			t.Errorf("%d of %d bytes are accepted as an archive", n, len(whole))
		}
	}
}

// Archives of hwloc-gather-topology contain a single directory.
func TestUnpackDirectory(t *testing.T) {
	for _, c := range []struct{ names, want string }{
		{"m/sys/online m/proc/x", "proc sys"},
		{"sys/online", "sys"},
		{"m/sys/online n/x", "m n"},
		{"../out /abs ./sys/a", "sys"},
	} {
		var packed bytes.Buffer
		w := tar.NewWriter(&packed)
		for _, name := range strings.Fields(c.names) {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o444}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		tree, err := hw.Unpack(&packed)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := fs.ReadDir(tree, ".")
		var got []string
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s has the root %q, %v; want %s", c.names, got, err, c.want)
		}
	}
}

func TestTreeIsFileSystem(t *testing.T) {
	tree, err := hwtest.FromText([]byte("-- a/{0-2}/x --\n{}\n-- a/first -> 0 --\n-- a/up -> ../a/1/x --\n-- b --\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(tree, "a/0/x", "a/2/x", "b"); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{"a/first/x": "0\n", "a/up": "1\n", "a/2/x": "2\n", "b": ""} {
		if got, err := fs.ReadFile(tree, name); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
		}
	}
	loop, err := hwtest.FromText([]byte("-- a -> b --\n-- b -> a --\n-- c -> ../../../d --\n-- d -> c/e --\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "c", "d"} {
		if _, err := fs.ReadFile(loop, name); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("%s is a loop of links, and reading it returns %v", name, err)
		}
	}
}

// FromText refuses malformed text archives.
func TestBadTexts(t *testing.T) {
	for _, text := range []string{"-- a{0 --\n", "-- a{2-1} --\n", "-- a{0-99999999} --\n", "-- a --\n-- a --\n", "-- ../a --\n",
		"-- cpulist --\n0-x\n"} {
		if _, err := hwtest.FromText([]byte(text)); err == nil {
			t.Errorf("%q is accepted as an archive", text)
		}
	}
}

func TestTreeConcurrently(t *testing.T) {
	tree := hwtest.Tree(t, "testdata/machines/dies.txtar")
	want, err := hw.Read(tree)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if got, err := hw.Read(tree); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("read concurrently, the tree is %+v, %v", got, err)
			}
		})
	}
	all.Wait()
}
