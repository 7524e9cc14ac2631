package inspect

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/needtest"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/jobs"
)

// startServer serves a fake source in a directory of the test.
func startServer(t *testing.T) (f *fakeSource, dir string) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("IBRUN_RUNTIME_DIR", filepath.Join(dir, "ibrun"))
	f = &fakeSource{ranks: []jobs.Rank{waitingRank(0, "Recv", 1, 7), {Rank: 1, State: jobs.Running}},
		snapshots: []*perf.Snapshot{{Identity: perf.Identity{Rank: 1, Size: 9}, Waiting: time.Minute,
			Ops: []perf.OpStat{{Op: perf.Recv, Calls: 2, Latency: perf.HistogramOf(5, time.Second)}}}}}
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

// TestQuery: the client returns what the source of the server returns.
func TestQuery(t *testing.T) {
	f, _ := startServer(t)
	all, err := jobs.List(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != "k1" {
		t.Fatalf("%+v, %v", all, err)
	}
	far := remoteSource{all[0]}
	ranks, err := far.Ranks(t.Context())
	if err != nil || len(ranks) != 2 || ranks[0].Waits[0] != f.ranks[0].Waits[0] {
		t.Errorf("%+v, %v", ranks, err)
	}
	pages, err := far.Snapshots(t.Context())
	if err != nil || len(pages) != 1 || !reflect.DeepEqual(pages[0].Ops, f.snapshots[0].Ops) || pages[0].Waiting != time.Minute {
		t.Errorf("%+v, %v", pages, err)
	}
	if texts, err := far.Stacks(t.Context(), []int{1}); err != nil || texts[1] != goroutines {
		t.Errorf("%+v, %v", texts, err)
	}
}

// The next ibrun removes the sockets of ibruns that were killed together with their watchers. It removes no socket that a process
// serves, that may be about to be served, or that is not its own.
func TestStaleSockets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ibrun")
	t.Setenv("IBRUN_RUNTIME_DIR", dir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		name        string
		old, served bool
		remains     bool
	}{
		{"abc-0", true, false, false},
		{"abc-1.new", true, false, false},
		{"served-0", true, true, true},
		{"young-0.new", false, false, true},
		{"other.sock", true, false, true},
	} {
		path := filepath.Join(dir, f.name)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		if f.old {
			then := time.Now().Add(-2 * staleAfter)
			if err := os.Chtimes(path, then, then); err != nil {
				t.Fatal(err)
			}
		}
		if f.served {
			defer l.Close()
		} else if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := os.Lstat(path); (err == nil) != f.remains {
				t.Errorf("%s: %v, want that it remains: %v", f.name, err, f.remains)
			}
		}()
	}
	d, err := Serve(&fakeSource{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLeftSockets: a client removes the socket of an ibrun that was killed, and the last server removes the directory.
func TestLeftSockets(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("IBRUN_RUNTIME_DIR", filepath.Join(dir, "ibrun"))
	d, err := Serve(&fakeSource{})
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
	if all, err := jobs.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a socket without a server is left: %v", err)
	}
	gone, err := jobs.Find(t.Context(), "k1")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Ranks(t.Context()); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("request to a job that has ended: %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("files %v are left, %v", files, err)
	}
}

const otherUID = 65534

// TestRefused: directories and sockets of other users, or with access for them, and files of another kind are refused.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(dir, socket string) error
		root  bool
		want  string
	}{
		"directory that others may enter": {func(dir, _ string) error { return os.Chmod(dir, 0o711) },
			false, "other users have access"},
		"directory of another user": {func(dir, _ string) error { return os.Chown(dir, otherUID, otherUID) },
			true, "user 65534"},
		"socket that others may use": {func(_, socket string) error { return os.Chmod(socket, 0o622) },
			false, "other users have access"},
		"socket of another user": {func(_, socket string) error { return os.Chown(socket, otherUID, otherUID) },
			true, "65534"},
		"link to a directory": {func(dir, _ string) error {
			return errors.Join(os.Rename(dir, dir+".away"), os.Symlink(dir+".away", dir))
		}, false, "not a directory"},
		"file": {func(dir, _ string) error { return os.WriteFile(dir+"/file", nil, 0o600) }, false, "not a socket"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root {
				needtest.Root(t, "to act as another user")
			}
			base := t.TempDir()
			t.Setenv("IBRUN_RUNTIME_DIR", filepath.Join(base, "ibrun"))
			d, err := Serve(&fakeSource{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close() // the error is ignored: the test has moved files
			if err := c.spoil(filepath.Dir(d.path), d.path); err != nil {
				t.Fatal(err)
			}
			all, err := jobs.List(t.Context())
			if !errors.Is(err, jobs.ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, %v; want an error with %q", all, err, c.want)
			}
			if len(all) > 0 && name != "file" {
				t.Errorf("queried although refused: %+v", all)
			}
			if again, err := Serve(&fakeSource{}); strings.Contains(name, "directory") && err == nil {
				if strings.HasPrefix(again.path, base) {
					t.Errorf("served there although refused: %s", again.path)
				}
				again.Close()
			}
		})
	}
}

// TestOtherUserIsRefused: a process of another user gets no response, even if it can connect to the socket.
func TestOtherUserIsRefused(t *testing.T) {
	needtest.Root(t, "to act as another user")
	_, dir := startServer(t)
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
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, otherUID, otherUID, otherUID); errno != 0 {
			other <- result{nil, errno}
			return
		}
		text, err := queryRaw(socket)
		other <- result{text, err}
	}()
	if r := <-other; r.err != nil || len(r.text) > 0 {
		t.Errorf("another user received %q, %v", r.text, r.err)
	}
	if text, err := queryRaw(socket); err != nil || !bytes.Contains(text, []byte(`"k1"`)) {
		t.Errorf("this user received %q, %v", text, err)
	}
}

// queryRaw requests the job without the checks of a client. It stays on its thread.
func queryRaw(path string) ([]byte, error) {
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

// TestBadClients: invalid requests, and more silent connections than are served at the same time, do not block other clients for
// long and do not block Close.
func TestBadClients(t *testing.T) {
	_, dir := startServer(t)
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
	if err != nil || !bytes.Contains(text, []byte(jobs.ErrMessage.Error())) {
		t.Errorf("%s, %v", text, err)
	}
	for range maxConnections - 1 {
		c := dial()
		defer c.Close()
	}
	if all, err := jobs.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	for range 2 {
		c := dial()
		defer c.Close()
	}
}

// TestStoppedIbrun: an ibrun that does not answer is an error after the request timeout.
func TestStoppedIbrun(t *testing.T) {
	_, dir := startServer(t)
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
	all, err := jobs.List(t.Context())
	if len(all) != 1 || !errors.Is(err, jobs.ErrNoAnswer) || !strings.Contains(err.Error(), "silent-0 does not answer") {
		t.Errorf("%+v, %v after %v", all, err, time.Since(began))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the caller has given up")
	cancel(reason)
	if all, err := jobs.List(ctx); len(all) > 0 || !errors.Is(err, reason) {
		t.Errorf("with a context that has ended: %+v, %v", all, err)
	}
}
