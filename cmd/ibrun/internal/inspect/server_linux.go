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

	"github.com/ibrun/ibrun/internal/jobsocket"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/jobs"
)

// maxConnections is the number of connections that are served at the same time; others wait.
const maxConnections = 16

type response = jobsocket.Response[jobs.Job, jobs.Rank]

// Server is the status server of an ibrun: it answers requests on a Unix socket.
type Server struct {
	source   Source
	listener *net.UnixListener
	path     string
	ctx      context.Context // ends requests in progress
	stop     context.CancelFunc
	handlers sync.WaitGroup
}

// Serve answers requests about a job until Close. Meanwhile it removes sockets that earlier jobs have left. After an error ibrun
// ps, top and hang do not find the job.
func Serve(source Source) (*Server, error) {
	d := &Server{source: source}
	var failed error
	for _, dir := range jobsocket.Dirs(os.Getenv) {
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
func SocketPaths(j jobs.Job) (sockets, dirs []string) {
	dirs = jobsocket.Dirs(os.Getenv)
	for _, dir := range dirs {
		sockets = append(sockets, socketPath(dir, j), socketPath(dir, j)+jobsocket.NewSuffix)
	}
	return sockets, dirs
}

func socketPath(dir string, j jobs.Job) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%d", j.ID, j.Node))
}

// listenIn creates a directory and a socket in it. The socket gets its final name only when it accepts connections, because
// clients remove a socket that refuses them.
func (d *Server) listenIn(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := jobsocket.CheckPrivate(dir, fs.ModeDir); err != nil {
		return err
	}
	name := socketPath(dir, d.source.Job())
	early := name + jobsocket.NewSuffix
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
	if peer, err := jobsocket.PeerUID(c); err != nil || peer != os.Geteuid() && peer != 0 {
		return
	}
	ctx, cancel := context.WithTimeout(d.ctx, jobsocket.Timeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	line, err := bufio.NewReader(io.LimitReader(c, jobsocket.MaxRequest)).ReadBytes('\n')
	if err != nil {
		return
	}
	_ = json.NewEncoder(c).Encode(d.respond(ctx, line))
}

func (d *Server) respond(ctx context.Context, line []byte) *response {
	job := d.source.Job()
	a := &response{Version: jobsocket.Version, Job: &job}
	q, err := jobsocket.DecodeRequest(line)
	if err == nil && q.Ranks {
		a.Ranks, err = d.source.Ranks(ctx)
	}
	if err == nil && q.Snapshots {
		a.Layout = perf.Version
		a.Snapshots, err = d.source.Snapshots(ctx)
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
