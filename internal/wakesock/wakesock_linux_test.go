package wakesock

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/internal/fdpass"
	"github.com/ibrun/ibrun/internal/fdpass/fdpasstest"
	"github.com/ibrun/ibrun/internal/leakcheck"
	"github.com/ibrun/ibrun/internal/waittest"
)

// newKey returns a random key.
func newKey() (k auth.Key) {
	rand.Read(k[:])
	return k
}

// process is what one process has after Meet.
type process struct {
	ends Ends
	send []int
	err  error
}

func (p *process) close() {
	if p.err == nil {
		p.ends.Discard()
		fdpass.Discard(p.send...)
	}
}

// meetAll lets n processes meet, as goroutines.
func meetAll(ctx context.Context, key auth.Key, n int) []process {
	all := make([]process, n)
	var done sync.WaitGroup
	for i := range all {
		done.Go(func() { all[i].ends, all[i].send, all[i].err = Meet(ctx, key, i, n) })
	}
	done.Wait()
	return all
}

// folders lists the folders of nodes that exist at the places where they may be.
func folders(t *testing.T, key auth.Key) (found []string) {
	t.Helper()
	for _, place := range places() {
		names, err := filepath.Glob(filepath.Join(place, folderName(key)))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, names...)
	}
	return found
}

// TestMeet: every process can send to every other, nothing stays behind in the file system, and the end of one process is
// reported to all others, once.
func TestMeet(t *testing.T) {
	before := leakcheck.Take(t, leakcheck.Files)
	for _, n := range []int{1, 2, 5, fdpass.Max + 3} {
		key := newKey()
		all := meetAll(t.Context(), key, n)
		for i := range all {
			if all[i].err != nil {
				t.Fatal(all[i].err)
			}
		}
		if left := folders(t, key); left != nil {
			t.Errorf("left behind: %v", left)
		}
		for from := range all {
			for to := range all {
				exchange(t, &all[from], &all[to], to)
			}
		}
		ended := make(chan int, n)
		w, err := Watch(all[0].ends.Ended, n, func(i int) { ended <- i })
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i < n; i++ {
			unix.Close(all[i].ends.Receive)
			if got := <-ended; got != i {
				t.Errorf("process %d has ended, but %d was reported", i, got)
			}
		}
		if err := w.Close(); err != nil || len(ended) != 0 {
			t.Errorf("%d more reports, %v", len(ended), err)
		}
		all[0].ends.Ended = noFD // closed with the watcher
		for i := range all {
			if i > 0 {
				all[i].ends.Receive = noFD // closed above
			}
			all[i].close()
		}
	}
	before.Compare(t)
}

// TestReadTogether: processes that read the set of ended processes at the same time all find the one that has ended.
func TestReadTogether(t *testing.T) {
	const n = 4
	node, err := New(n)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	node.Handed(2)
	var readers sync.WaitGroup
	for range n {
		readers.Go(func() {
			events := make([]unix.EpollEvent, n)
			for range 20_000 {
				if got := ready(node.ended, events); got != 1 || events[0].Fd != 2 {
					t.Errorf("%d events, the first of process %d", got, events[0].Fd)
					return
				}
			}
		})
	}
	readers.Wait()
}

// checked is a context that calls a function when it is checked.
type checked struct {
	context.Context
	check func()
}

func (c checked) Err() error {
	c.check()
	return c.Context.Err()
}

// TestSendWaitingRefused: while the kernel refuses to pass descriptors, sendWaiting waits, as long as its context lets it.
func TestSendWaitingRefused(t *testing.T) {
	before := leakcheck.Take(t, leakcheck.Files)
	node, err := New(1)
	if err != nil {
		t.Fatal(err)
	}
	ends := node.Ends(0)
	free := fdpasstest.Exhaust(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sendWaiting(ended, ends.Send, ends.Ended); !errors.Is(err, unix.ETOOMANYREFS) {
		t.Errorf("after the end of the context: %v", err)
	}
	if err := sendWaiting(checked{t.Context(), free}, ends.Send, ends.Ended); err != nil {
		t.Error(err)
	}
	if got, err := receiveDescriptors(t.Context(), ends.Receive, 1); err != nil {
		t.Error(err)
	} else {
		fdpass.Discard(got...)
	}
	node.Close()
	before.Compare(t)
}

// exchange sends one message.
func exchange(t *testing.T, from, to *process, i int) {
	t.Helper()
	if err := fdpass.Send(from.send[i], []byte{Wake}); err != nil {
		t.Fatal(err)
	}
	var r fdpass.Receiver
	if n, _, err := r.Receive(to.ends.Receive, make([]byte, 2)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
}

// TestStrangers: visitors without the key get nothing, and the processes of the job meet nevertheless.
func TestStrangers(t *testing.T) {
	before := leakcheck.Take(t, leakcheck.Files)
	key, n := newKey(), 3
	first := make(chan process)
	go func() {
		var p process
		p.ends, p.send, p.err = Meet(t.Context(), key, 0, n)
		first <- p
	}()
	good := appendRequest(nil, key, 1)
	for _, request := range [][]byte{
		appendRequest(nil, newKey(), 1), appendRequest(nil, key, 0), appendRequest(nil, key, n), good[:20], append(good, 0), {},
	} {
		fd, err := dialFirst(t.Context(), key, places())
		if err != nil {
			t.Fatal(err)
		}
		if err := fdpass.Send(fd, request, fd, fd); err != nil {
			t.Fatal(err)
		}
		if fds, err := receiveDescriptors(t.Context(), fd, 3); !errors.Is(err, errFirstEnded) {
			t.Errorf("request %x: %v, %v", request, fds, err)
		}
		unix.Close(fd)
	}
	rest := make([]process, n)
	var done sync.WaitGroup
	for i := 1; i < n; i++ {
		done.Go(func() { rest[i].ends, rest[i].send, rest[i].err = Meet(t.Context(), key, i, n) })
	}
	done.Wait()
	rest[0] = <-first
	for i := range rest {
		if rest[i].err != nil {
			t.Error(rest[i].err)
		}
		rest[i].close()
	}
	before.Compare(t)
}

// TestMeetTimeout: a process whose others do not come returns an error, and leaves nothing behind.
func TestMeetTimeout(t *testing.T) {
	before := leakcheck.Take(t, leakcheck.Files)
	cause := errors.New("too late")
	for self := range 2 {
		ctx, cancel := context.WithCancelCause(t.Context())
		key := newKey()
		ended := make(chan error, 1)
		go func() {
			_, _, err := Meet(ctx, key, self, 2)
			ended <- err
		}()
		if self == 0 {
			waittest.Until(t, "process 0 has a folder", func() bool { return folders(t, key) != nil })
		}
		waittest.Nothing(t, 20*time.Millisecond, "Meet returns alone", ended)
		cancel(cause)
		if err := waittest.Receive(t, "Meet returns", ended); !errors.Is(err, cause) {
			t.Errorf("process %d: %v", self, err)
		}
		if left := folders(t, key); left != nil {
			t.Errorf("process %d left behind: %v", self, left)
		}
	}
	before.Compare(t)
}

// TestOpenFolder: a folder that others can enter, a symbolic link and a folder of another user are refused.
func TestOpenFolder(t *testing.T) {
	dir := t.TempDir()
	good, link := filepath.Join(dir, "good"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(good, 0o700), os.Symlink(good, link)); err != nil {
		t.Fatal(err)
	}
	f, err := openFolder(good)
	if err != nil {
		t.Fatal(err)
	}
	f.close()
	if f, err := openFolder(link); err == nil {
		t.Errorf("a link was accepted: %+v", f)
	}
	for _, mode := range []os.FileMode{0o701, 0o710, 0o770, 0o777} {
		if err := os.Chmod(good, mode); err != nil {
			t.Fatal(err)
		}
		if f, err := openFolder(good); !errors.Is(err, os.ErrPermission) {
			t.Errorf("mode %o: %+v, %v", mode, f, err)
		}
	}
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Chmod(good, 0o700), os.Chown(good, 65534, 65534)); err != nil {
			t.Fatal(err)
		}
		if f, err := openFolder(good); !errors.Is(err, os.ErrPermission) {
			t.Errorf("a folder of another user: %+v, %v", f, err)
		}
	}
}

// TestStale: a folder of a process that was killed is removed by the next one; one that is in use stays, and other files stay.
func TestStale(t *testing.T) {
	dir := t.TempDir()
	stale, used := filepath.Join(dir, folderName(newKey())), filepath.Join(dir, folderName(newKey()))
	other, short := filepath.Join(dir, "other"), filepath.Join(dir, folderPrefix+"12")
	for _, path := range []string{stale, other, short} {
		if err := errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, socketName), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	inUse, err := makeFolderAt(used)
	if err != nil {
		t.Fatal(err)
	}
	key := newKey()
	f, err := makeFolder(key, []string{filepath.Join(dir, "missing"), dir})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{filepath.Base(used), folderName(key), filepath.Base(other), filepath.Base(short)}
	for _, name := range want {
		if err != nil || !strings.Contains(strings.Join(left, " "), name) || len(left) != len(want) {
			t.Errorf("%v instead of %v, %v", left, want, err)
		}
	}
	if err := errors.Join(f.remove(), inUse.remove()); err != nil {
		t.Error(err)
	}
}

// TestRequestPrefixes: no strict prefix of a request is valid.
func TestRequestPrefixes(t *testing.T) {
	key := newKey()
	whole := appendRequest(nil, key, 7)
	if i, ok := parseRequest(whole, key, 8); i != 7 || !ok {
		t.Errorf("the whole: %d, %v", i, ok)
	}
	for n := range whole {
		if _, ok := parseRequest(whole[:n], key, 8); ok {
			t.Errorf("%d of %d bytes are a valid request", n, len(whole))
		}
	}
}

func FuzzRequest(f *testing.F) {
	key := auth.Key{1}
	f.Add(appendRequest(nil, key, 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		if i, ok := parseRequest(b, key, 5); ok && (i < 1 || i > 4 || string(appendRequest(nil, key, i)) != string(b)) {
			t.Errorf("%x is a request of process %d", b, i)
		}
	})
}
