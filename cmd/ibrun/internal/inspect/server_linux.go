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
	// requestTimeout bounds one request, also if the ibrun at the other end is stopped.
	requestTimeout = 3 * time.Second
	// maxConnections is the number of connections that are served at the same time; others wait.
	maxConnections = 16
)

// Server is the status server of an ibrun: it answers requests on a Unix socket.
type Server struct {
	source   Source
	listener *net.UnixListener
	path     string
	ctx      context.Context // ends requests in progress
	stop     context.CancelFunc
	handlers sync.WaitGroup
}

// socketDirs returns the directories in which sockets may be, in order of preference. Each is private to this user. With
// IBRUN_RUNTIME_DIR it is the only one.
func socketDirs(getenv func(string) string) (dirs []string) {
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

// checkPrivate returns an error unless path is of this kind, belongs to this user, and other users have no access to it.
func checkPrivate(path string, kind fs.FileMode) error {
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
		return fmt.Errorf("%s is refused: it is not a %s", path, names[kind])
	case int(s.Uid) != os.Geteuid():
		return fmt.Errorf("%s is refused: it belongs to user %d", path, s.Uid)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s is refused: other users have access (mode %04o)", path, info.Mode().Perm())
	}
	return nil
}

// Serve answers requests about a job until Close. Meanwhile it removes sockets that earlier jobs have left. After an error ibrun
// ps, top and hang do not find the job.
func Serve(source Source) (*Server, error) {
	d := &Server{source: source}
	var failed error
	for _, dir := range socketDirs(os.Getenv) {
		err := d.listenIn(dir)
		if errors.Is(err, fs.ErrNotExist) { // another job ended and removed the directory, or its parent is missing
			err = d.listenIn(dir)
		}
		if err == nil {
			d.ctx, d.stop = context.WithCancel(context.Background())
			d.handlers.Go(d.serve)
			d.handlers.Go(func() { removeStale(dir) })
			return d, nil
		}
		failed = err
	}
	return nil, fmt.Errorf("no directory for the status socket: %w", failed)
}

// SocketPaths returns the sockets that Serve may create for a job, and their directories, which Close removes when they are
// empty. They remain if ibrun is killed.
func SocketPaths(j Job) (sockets, dirs []string) {
	dirs = socketDirs(os.Getenv)
	for _, dir := range dirs {
		sockets = append(sockets, socketPath(dir, j), socketPath(dir, j)+newSuffix)
	}
	return sockets, dirs
}

func socketPath(dir string, j Job) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%d", j.ID, j.Node))
}

// newSuffix is added to the name of a socket that does not accept connections yet.
const newSuffix = ".new"

// listenIn creates a directory and a socket in it. The socket gets its final name only when it accepts connections, because
// clients remove a socket that refuses them.
func (d *Server) listenIn(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := checkPrivate(dir, fs.ModeDir); err != nil {
		return err
	}
	name := socketPath(dir, d.source.Job())
	early := name + newSuffix
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
	d.listener, d.path = l, name
	return nil
}

// Close stops serving and removes the socket and an empty directory. Close of a nil Server does nothing.
func (d *Server) Close() error {
	if d == nil {
		return nil
	}
	err := errors.Join(os.Remove(d.path), d.listener.Close())
	d.stop()
	d.handlers.Wait()
	return errors.Join(err, removeIfEmpty(filepath.Dir(d.path)))
}

// removeIfEmpty removes a directory unless another job uses it.
func removeIfEmpty(dir string) error {
	err := os.Remove(dir)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (d *Server) serve() {
	slots := make(chan bool, maxConnections)
	for {
		c, err := d.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // a temporary error, such as too many open file descriptors
			select {
			case <-time.After(100 * time.Millisecond):
			case <-d.ctx.Done():
			}
			continue
		}
		slots <- true
		d.handlers.Go(func() {
			d.handle(c)
			c.Close()
			<-slots
		})
	}
}

// handle answers one request, if it is from this user or root. It ignores clients that disconnect or do not read.
func (d *Server) handle(c *net.UnixConn) {
	if peer, err := peerUID(c); err != nil || peer != os.Geteuid() && peer != 0 {
		return
	}
	ctx, cancel := context.WithTimeout(d.ctx, requestTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	line, err := bufio.NewReader(io.LimitReader(c, maxRequest)).ReadBytes('\n')
	if err != nil {
		return
	}
	_ = json.NewEncoder(c).Encode(d.respond(ctx, line))
}

func (d *Server) respond(ctx context.Context, line []byte) *response {
	job := d.source.Job()
	a := &response{Job: &job}
	q, err := decodeRequest(line)
	if err == nil && q.Ranks {
		a.Ranks, err = d.source.Ranks(ctx)
	}
	if err == nil && len(q.Stacks) > 0 {
		ctx, cancel := context.WithTimeout(ctx, stackTimeout)
		defer cancel()
		a.Stacks, err = d.source.Stacks(ctx, q.Stacks)
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		a.Error = err.Error()
	}
	return a
}

// peerUID returns the user id of the process at the other end of a connection.
func peerUID(c *net.UnixConn) (uid int, err error) {
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
