//go:build unix

package auth

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/internal/waittest"
)

// The owners and modes that a secret file may have, for a process of user 7 in the groups 8 and 9.
func TestSecretOwner(t *testing.T) {
	for _, c := range []struct {
		uid, gid int
		mode     os.FileMode
		want     string
	}{
		{7, 8, 0o600, ""}, {7, 1, 0o400, ""}, {0, 0, 0o400, ""},
		{0, 8, 0o440, ""}, {0, 9, 0o640, ""}, // as a fsGroup of Kubernetes
		{0, 1, 0o440, "chmod 600"}, // of another group
		{7, 8, 0o440, "chmod 600"}, {7, 8, 0o640, "chmod 600"}, {0, 8, 0o460, "chmod 600"}, {0, 8, 0o444, "chmod 600"},
		{0, 8, 0o441, "chmod 600"}, {7, 7, 0o602, "chmod 600"}, {6, 8, 0o600, "belongs to user 6"}, {6, 8, 0o440, "belongs to user 6"},
	} {
		err := checkOwner(c.uid, c.gid, c.mode, 7, []int{8, 9})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("file of %d:%d, mode %04o: %v, want %q", c.uid, c.gid, c.mode, err, c.want)
		}
	}
	// Root itself.
	for gid, ok := range map[int]bool{0: false, 8: true, 1: false} {
		if err := checkOwner(0, gid, 0o440, 0, []int{0, 8}); (err == nil) != ok {
			t.Errorf("root, and a file of 0:%d with mode 0440: %v", gid, err)
		}
	}
}

// Everything but a regular file is refused immediately, also a FIFO without a writer. A link to a good file is followed, one
// to a bad file is not better than the file.
func TestSecretKind(t *testing.T) {
	dir := t.TempDir()
	fifo, good := filepath.Join(dir, "fifo"), filepath.Join(dir, "good")
	link, open := filepath.Join(dir, "link"), filepath.Join(dir, "open")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteSecret(good); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(open, make([]byte, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for to, from := range map[string]string{good: link, open: link + "2"} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	const irregular = "not a regular file"
	for name, want := range map[string]string{fifo: irregular, dir: irregular, "/dev/zero": irregular, link: "",
		link + "2": "chmod 600"} {
		done := make(chan error, 1)
		go func() {
			_, err := ReadSecret(name)
			done <- err
		}()
		err := waittest.Receive(t, "ReadSecret of "+name+" returns", done)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
