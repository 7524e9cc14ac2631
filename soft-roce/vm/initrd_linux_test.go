package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
)

// initrdEntry is one entry of the archive.
type initrdEntry struct {
	name         string
	mode         uint64
	major, minor uint64
	data         string
}

// readInitrd parses an archive strictly, by the description in the kernel's documentation.
func readInitrd(t *testing.T, b []byte) (entries []initrdEntry) {
	t.Helper()
	at := 0
	take := func(n uint64) []byte {
		if at+int(n) > len(b) {
			t.Fatalf("the archive ends at %d, inside a field at %d of %d bytes", len(b), at, n)
		}
		at += int(n)
		return b[at-int(n) : at]
	}
	inodes := map[uint64]bool{}
	for {
		if at%4 != 0 {
			t.Fatalf("a header begins at %d", at)
		}
		if magic := string(take(6)); magic != "070701" {
			t.Fatalf("magic %q", magic)
		}
		var f [13]uint64
		for i := range f {
			var err error
			if f[i], err = strconv.ParseUint(string(take(8)), 16, 32); err != nil {
				t.Fatal(err)
			}
		}
		name := take(f[11])
		take(uint64(-at & 3))
		data := take(f[6])
		take(uint64(-at & 3))
		if name[len(name)-1] != 0 {
			t.Fatalf("the name %q is not terminated", name)
		}
		e := initrdEntry{string(name[:len(name)-1]), f[1], f[9], f[10], string(data)}
		if e.name == "TRAILER!!!" {
			if at != len(b) {
				t.Errorf("%d bytes follow the end", len(b)-at)
			}
			return entries
		}
		if inodes[f[0]] || f[4] != 1 {
			t.Errorf("%s has inode %d, %d links: the kernel would make it a hard link", e.name, f[0], f[4])
		}
		inodes[f[0]] = true
		entries = append(entries, e)
	}
}

func TestInitrd(t *testing.T) {
	var b bytes.Buffer
	w := newInitrd(&b)
	for n := range 5 { // all paddings
		if err := w.file(fmt.Sprintf("lib/deep%[1]*d/f", n+1, n), 0o755, bytes.Repeat([]byte("x"), n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.dir("lib"), w.device("dev/console", 5, 1), w.close()); err != nil {
		t.Fatal(err)
	}
	want := []initrdEntry{
		{"lib", 0o040755, 0, 0, ""},
		{"lib/deep0", 0o040755, 0, 0, ""}, {"lib/deep0/f", 0o100755, 0, 0, ""},
		{"lib/deep 1", 0o040755, 0, 0, ""}, {"lib/deep 1/f", 0o100755, 0, 0, "x"},
		{"lib/deep  2", 0o040755, 0, 0, ""}, {"lib/deep  2/f", 0o100755, 0, 0, "xx"},
		{"lib/deep   3", 0o040755, 0, 0, ""}, {"lib/deep   3/f", 0o100755, 0, 0, "xxx"},
		{"lib/deep    4", 0o040755, 0, 0, ""}, {"lib/deep    4/f", 0o100755, 0, 0, "xxxx"},
		{"dev", 0o040755, 0, 0, ""}, {"dev/console", 0o020600, 5, 1, ""},
	}
	if got := readInitrd(t, b.Bytes()); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestInitrdKeepsFirstError(t *testing.T) {
	full := errors.New("disk full")
	w := newInitrd(failing{full})
	w.file("big", 0o644, make([]byte, 1<<20))
	if err := w.close(); !errors.Is(err, full) {
		t.Errorf("close returned %v", err)
	}
}

type failing struct{ error }

func (f failing) Write([]byte) (int, error) { return 0, f.error }
