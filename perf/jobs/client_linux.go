package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/jobsocket"
)

func list(ctx context.Context) (all []Job, err error) {
	for _, dir := range jobsocket.Dirs(os.Getenv) {
		files, errDir := os.ReadDir(dir)
		if errDir == nil {
			errDir = jobsocket.CheckPrivate(dir, fs.ModeDir)
		}
		if errors.Is(errDir, fs.ErrNotExist) {
			continue
		}
		if errDir != nil {
			err = errors.Join(err, errDir)
			continue
		}
		for _, f := range files {
			if strings.HasSuffix(f.Name(), jobsocket.NewSuffix) {
				continue // is about to be renamed
			}
			a, errQuery := query(ctx, filepath.Join(dir, f.Name()), &jobsocket.Request{})
			if a != nil { // another version's jobs are listed too
				all = append(all, *a.Job)
			} else if !errors.Is(errQuery, ErrNotFound) {
				err = errors.Join(err, errQuery)
			}
		}
	}
	slices.SortFunc(all, func(a, b Job) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.ID, b.ID), a.Node-b.Node) })
	return all, err
}

// query sends a request to the socket where the job was found.
func (j Job) query(ctx context.Context, q *jobsocket.Request) (*response, error) {
	if j.path == "" {
		return nil, fmt.Errorf("%w: List or Find has not returned it", ErrNotFound)
	}
	a, err := query(ctx, j.path, q)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, fmt.Errorf("%w: %s has ended", ErrNotFound, j.ID)
	case err != nil:
		return nil, err
	}
	return a, nil
}

// query sends a request to a socket and returns the response. If the process that served the socket was killed, it removes the
// socket and returns ErrNotFound, as it does if there is no socket. With a *VersionError the response has only the job.
func query(ctx context.Context, path string, q *jobsocket.Request) (*response, error) {
	if err := jobsocket.CheckPrivate(path, fs.ModeSocket); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	} else if err != nil {
		return nil, err
	}
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, jobsocket.Timeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case outer.Err() != nil:
		return nil, context.Cause(outer)
	case errors.Is(err, unix.ECONNREFUSED):
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %s was left by an ibrun that was killed", ErrNotFound, path)
	case errors.Is(err, fs.ErrNotExist): // removed since the check
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	case err != nil && ctx.Err() == nil:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("the ibrun at %s %w", path, ErrNoAnswer)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	a, err := exchange(conn.(*net.UnixConn), q)
	switch {
	case outer.Err() != nil:
		return nil, context.Cause(outer)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("the ibrun at %s %w", path, ErrNoAnswer)
	case a == nil && !exists(path): // the server removes the socket before it closes connections
		return nil, fmt.Errorf("%w: the ibrun at %s has ended", ErrNotFound, path)
	case a == nil:
		return nil, fmt.Errorf("query %s: %w", path, err)
	case a.Error != "":
		return nil, fmt.Errorf("the ibrun at %s: %s", path, a.Error)
	}
	a.Job.path = path
	return a, err
}

// exchange sends the request and returns the response, as decode does.
func exchange(c *net.UnixConn, q *jobsocket.Request) (*response, error) {
	if user, err := jobsocket.PeerUID(c); err != nil {
		return nil, err
	} else if user != os.Geteuid() {
		return nil, fmt.Errorf("%w: the socket is served by user %d", ErrRefused, user)
	}
	if err := json.NewEncoder(c).Encode(q); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(c, jobsocket.MaxResponse))
	if err != nil {
		return nil, err
	}
	return decode(text)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
