package inspect

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// askPatience bounds one question, also against an ibrun that is stopped.
	askPatience = 3 * time.Second
	// maxAskers are served at a time; others wait.
	maxAskers = 16
)

// Desk is the socket at which an ibrun answers.
type Desk struct {
	source Source
	listen *net.UnixListener
	path   string
	ctx    context.Context // ends what is under way
	stop   context.CancelFunc
	busy   sync.WaitGroup
}

// directories are where sockets may be, the first that can be used first: private to this user by whoever made them, or by us.
// With IBRUN_RUNTIME_DIR there is no other.
func directories(getenv func(string) string) (dirs []string) {
	if dir := getenv("IBRUN_RUNTIME_DIR"); dir != "" {
		return []string{dir}
	}
	uid := os.Geteuid()
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		dirs = append(dirs, filepath.Join(dir, "ibrun"))
	}
	dirs = append(dirs, fmt.Sprintf("/run/user/%d/ibrun", uid), fmt.Sprintf("/tmp/ibrun-%d", uid))
	if len(dirs) == 3 && dirs[0] == dirs[1] {
		dirs = dirs[1:]
	}
	return dirs
}

// owned refuses what belongs to another user, or what others may enter.
func owned(path string, kind fs.FileMode) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	var s unix.Stat_t
	if err := unix.Lstat(path, &s); err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	switch {
	case info.Mode().Type() != kind:
		names := map[fs.FileMode]string{fs.ModeDir: "directory", fs.ModeSocket: "socket"}
		return fmt.Errorf("%s is refused: it is no %s", path, names[kind])
	case int(s.Uid) != os.Geteuid():
		return fmt.Errorf("%s is refused: it belongs to user %d", path, s.Uid)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s is refused: others may use it (mode %04o)", path, info.Mode().Perm())
	}
	return nil
}

// Serve answers about a job until Close. An error means that the commands will not see it.
func Serve(source Source) (*Desk, error) {
	d := &Desk{source: source}
	var failed error
	for _, dir := range directories(os.Getenv) {
		err := d.open(dir)
		if errors.Is(err, fs.ErrNotExist) { // somebody else's job ended just then, or there is nothing to make it in
			err = d.open(dir)
		}
		if err == nil {
			d.ctx, d.stop = context.WithCancel(context.Background())
			d.busy.Go(d.serve)
			return d, nil
		}
		failed = err
	}
	return nil, fmt.Errorf("no directory for a socket: %w", failed)
}

// open listens in a directory, which it makes. The socket gets its name when it can be asked, so that nobody takes it for one
// whose owner has died.
func (d *Desk) open(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := owned(dir, fs.ModeDir); err != nil {
		return err
	}
	j := d.source.Job()
	name := filepath.Join(dir, fmt.Sprintf("%s-%d", j.ID, j.Node))
	early := name + ".new"
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: early, Net: "unix"})
	if err != nil {
		return errors.Join(err, removeIfEmpty(dir))
	}
	l.SetUnlinkOnClose(false)
	err = os.Chmod(early, 0o600)
	if err == nil {
		err = os.Rename(early, name)
	}
	if err != nil {
		return errors.Join(err, l.Close(), os.Remove(early))
	}
	d.listen, d.path = l, name
	return nil
}

// Close ends answering and leaves nothing behind. A nil Desk has nothing to close.
func (d *Desk) Close() error {
	if d == nil {
		return nil
	}
	err := errors.Join(os.Remove(d.path), d.listen.Close())
	d.stop()
	d.busy.Wait()
	return errors.Join(err, removeIfEmpty(filepath.Dir(d.path)))
}

// removeIfEmpty removes a directory unless somebody else uses it.
func removeIfEmpty(dir string) error {
	err := os.Remove(dir)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (d *Desk) serve() {
	places := make(chan bool, maxAskers)
	for {
		c, err := d.listen.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptors are left, say, which passes
			select {
			case <-time.After(100 * time.Millisecond):
			case <-d.ctx.Done():
			}
			continue
		}
		places <- true
		d.busy.Go(func() {
			d.reply(c)
			c.Close()
			<-places
		})
	}
}

// reply answers one question of this user or root. Who asks and goes, or does not read, is its own business.
func (d *Desk) reply(c *net.UnixConn) {
	if peer, err := userOf(c); err != nil || peer != os.Geteuid() && peer != 0 {
		return
	}
	ctx, cancel := context.WithTimeout(d.ctx, askPatience)
	defer cancel()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	line, err := bufio.NewReader(io.LimitReader(c, maxQuestion)).ReadBytes('\n')
	if err != nil {
		return
	}
	_ = json.NewEncoder(c).Encode(d.answer(ctx, line))
}

func (d *Desk) answer(ctx context.Context, line []byte) *answer {
	job := d.source.Job()
	a := &answer{Job: &job}
	q, err := decodeQuestion(line)
	if err == nil && q.Ranks {
		a.Ranks, err = d.source.Ranks(ctx)
	}
	if err == nil && len(q.Stacks) > 0 {
		ctx, cancel := context.WithTimeout(ctx, stackPatience)
		defer cancel()
		a.Stacks, err = d.source.Stacks(ctx, q.Stacks)
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		a.Error = err.Error()
	}
	return a
}

// userOf returns who is at the other end of a connection.
func userOf(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	errControl := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(errControl, err); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
