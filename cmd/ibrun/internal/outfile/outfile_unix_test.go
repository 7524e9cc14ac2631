//go:build unix

package outfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file has the mode that the umask says, also if it replaces one with another mode. After an error the old file is unchanged,
// and nothing else is in the folder.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "report.html")
	defer syscall.Umask(syscall.Umask(0))
	for _, umask := range []int{0o022, 0o077, 0o002, 0o027} {
		syscall.Umask(umask)
		if err := Write(name, func(f *os.File) error {
			_, err := f.WriteString("good")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(name); err != nil || info.Mode() != fs.FileMode(0o666&^umask) {
			t.Errorf("umask %03o: mode %v, %v", umask, info.Mode(), err)
		}
	}
	failure := errors.New("the disk is full")
	if err := Write(name, func(f *os.File) error {
		f.WriteString("bad")
		return failure
	}); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "good" {
		t.Errorf("%q, %v", text, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}

// A new file can be read by its owner only. A file or a link that is there already is not changed, and after an error there is
// nothing new.
func TestWriteNew(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "bundle.tar.gz")
	defer syscall.Umask(syscall.Umask(0))
	text := func(s string) func(*os.File) error {
		return func(f *os.File) error {
			_, err := f.WriteString(s)
			return err
		}
	}
	failure := errors.New("the disk is full")
	if err := WriteNew(name, func(f *os.File) error { return errors.Join(text("half")(f), failure) }); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
	if err := WriteNew(name, text("good")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	for _, there := range []string{name, link} {
		if err := WriteNew(there, text("bad")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: got %v", there, err)
		}
	}
	// Another process makes the file while this one writes.
	late := filepath.Join(dir, "late")
	err := WriteNew(late, func(f *os.File) error { return errors.Join(text("bad")(f), os.WriteFile(late, []byte("good"), 0o644)) })
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v", err)
	}
	for _, there := range []string{name, late} {
		if data, err := os.ReadFile(there); err != nil || string(data) != "good" {
			t.Errorf("%q, %v", data, err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 3 {
		t.Errorf("%v, %v", files, err)
	}
}
