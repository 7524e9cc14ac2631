package inspect

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// served has a fake source answer in a directory of its own.
func served(t *testing.T) (f *fake, dir string) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("IBRUN_RUNTIME_DIR", filepath.Join(dir, "ibrun"))
	f = &fake{ranks: []Rank{in(0, "Recv", 1, 7), {Rank: 1, State: Running}}}
	d, err := Serve(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return f, filepath.Join(dir, "ibrun")
}

// TestAsk: what a source tells comes through the socket as it is.
func TestAsk(t *testing.T) {
	f, _ := served(t)
	jobs, err := Jobs(t.Context())
	if err != nil || len(jobs) != 1 || jobs[0].ID != "k1" {
		t.Fatalf("%+v, %v", jobs, err)
	}
	far := jobs[0].Remote()
	ranks, err := far.Ranks(t.Context())
	if err != nil || len(ranks) != 2 || ranks[0].Waits[0] != f.ranks[0].Waits[0] {
		t.Errorf("%+v, %v", ranks, err)
	}
	if texts, err := far.Stacks(t.Context(), []int{1}); err != nil || texts[1] != goroutines {
		t.Errorf("%+v, %v", texts, err)
	}
}

// TestLeftSockets: one whose ibrun was killed is removed; after the last job so is the directory.
func TestLeftSockets(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("IBRUN_RUNTIME_DIR", filepath.Join(dir, "ibrun"))
	f := &fake{}
	d, err := Serve(f)
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, "ibrun", "left-0")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: left, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(left, 0o600), l.Close()); err != nil {
		t.Fatal(err)
	}
	if jobs, err := Jobs(t.Context()); err != nil || len(jobs) != 1 {
		t.Errorf("%+v, %v", jobs, err)
	}
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a socket that nobody serves is left: %v", err)
	}
	gone := f.Job()
	gone.path = d.path
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Remote().Ranks(t.Context()); !errors.Is(err, errGone) {
		t.Errorf("of a job that has ended: %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("left are %v, %v", files, err)
	}
}

// asRoot skips what only root can make happen.
func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("needs root")
		}
		t.Skip("needs root, to be another user for a moment")
	}
}

const nobody = 65534

// TestRefused: no directory and no socket of others is used, nor one that others may use, nor anything else of such a name.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(dir, socket string) error
		root  bool
		want  string
	}{
		"directory that others may enter": {func(dir, _ string) error { return os.Chmod(dir, 0o711) }, false, "others may use"},
		"directory of another user":       {func(dir, _ string) error { return os.Chown(dir, nobody, nobody) }, true, "user 65534"},
		"socket that others may use":      {func(_, socket string) error { return os.Chmod(socket, 0o622) }, false, "others may use"},
		"socket of another user":          {func(_, socket string) error { return os.Chown(socket, nobody, nobody) }, true, "65534"},
		"link to a directory": {func(dir, _ string) error {
			return errors.Join(os.Rename(dir, dir+".away"), os.Symlink(dir+".away", dir))
		}, false, "no directory"},
		"file": {func(dir, _ string) error { return os.WriteFile(dir+"/file", nil, 0o600) }, false, "no socket"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root {
				asRoot(t)
			}
			base := t.TempDir()
			t.Setenv("IBRUN_RUNTIME_DIR", filepath.Join(base, "ibrun"))
			d, err := Serve(&fake{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close() // which may not find everything where it was
			if err := c.spoil(filepath.Dir(d.path), d.path); err != nil {
				t.Fatal(err)
			}
			jobs, err := Jobs(t.Context())
			if err == nil || !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, %v; want an error with %q", jobs, err, c.want)
			}
			if len(jobs) > 0 && name != "file" {
				t.Errorf("asked all the same: %+v", jobs)
			}
			if again, err := Serve(&fake{}); strings.Contains(name, "directory") && err == nil {
				if strings.HasPrefix(again.path, base) {
					t.Errorf("served there all the same: %s", again.path)
				}
				again.Close()
			}
		})
	}
}

// TestOtherUserIsRefused: who is not the job's user gets no answer, even if the socket can be reached.
func TestOtherUserIsRefused(t *testing.T) {
	asRoot(t)
	_, dir := served(t)
	for path := dir; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, info.Mode()|0o011); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(dir, "k1-0")
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
	type result struct {
		text []byte
		err  error
	}
	other := make(chan result)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is another user's, and ends with the goroutine
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			other <- result{nil, errno}
			return
		}
		text, err := knock(socket)
		other <- result{text, err}
	}()
	if r := <-other; r.err != nil || len(r.text) > 0 {
		t.Errorf("another user was told %q, %v", r.text, r.err)
	}
	if text, err := knock(socket); err != nil || !bytes.Contains(text, []byte(`"k1"`)) {
		t.Errorf("this user was told %q, %v", text, err)
	}
}

// knock asks for the job, whatever a client would check before. It stays on its thread.
func knock(path string) ([]byte, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, err
	}
	if _, err := f.WriteString("{}\n"); err != nil && !errors.Is(err, unix.EPIPE) {
		return nil, err
	}
	text, err := io.ReadAll(f)
	if errors.Is(err, unix.ECONNRESET) {
		err = nil
	}
	return text, err
}

// TestBadAskers: nonsense, and more askers than are served at a time that say nothing, keep nobody else from an answer for long,
// and do not keep the job from ending.
func TestBadAskers(t *testing.T) {
	_, dir := served(t)
	socket := filepath.Join(dir, "k1-0")
	dial := func() net.Conn {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := dial()
	if _, err := c.Write([]byte("GET / HTTP/1.1\r\n")); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(c)
	if err != nil || !bytes.Contains(text, []byte(errTalk.Error())) {
		t.Errorf("%s, %v", text, err)
	}
	for range maxAskers - 1 {
		c := dial()
		defer c.Close()
	}
	if jobs, err := Jobs(t.Context()); err != nil || len(jobs) != 1 {
		t.Errorf("%+v, %v", jobs, err)
	}
	for range 2 {
		c := dial()
		defer c.Close()
	}
}

// TestStoppedIbrun: an ibrun that does not answer is told of, and not waited for longer than is bearable.
func TestStoppedIbrun(t *testing.T) {
	_, dir := served(t)
	silent := filepath.Join(dir, "silent-0")
	l, err := net.Listen("unix", silent)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(silent, 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	jobs, err := Jobs(t.Context())
	if len(jobs) != 1 || err == nil || !strings.Contains(err.Error(), "silent-0 does not answer") {
		t.Errorf("%+v, %v after %v", jobs, err, time.Since(began))
	}
}
