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
