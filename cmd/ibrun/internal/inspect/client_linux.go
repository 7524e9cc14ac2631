package inspect

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
)

// Jobs returns the jobs of this user whose ibrun runs on this machine, the oldest first. It removes the sockets of ibruns that
// were killed. If some sockets could not be queried, it returns an error in addition to the other jobs.
func Jobs(ctx context.Context) (jobs []Job, err error) {
	for _, dir := range socketDirs(os.Getenv) {
		files, errDir := os.ReadDir(dir)
		if errDir == nil {
			errDir = checkPrivate(dir, fs.ModeDir)
		} else if errors.Is(errDir, fs.ErrNotExist) {
			continue
		}
		if errDir != nil {
			err = errors.Join(err, errDir)
			continue
		}
		for _, f := range files {
			if strings.HasSuffix(f.Name(), ".new") {
				continue // is about to be renamed
			}
			a, errAsk := query(ctx, filepath.Join(dir, f.Name()), &request{})
			if errAsk == nil {
				jobs = append(jobs, *a.Job)
			} else if !errors.Is(errAsk, fs.ErrNotExist) {
				err = errors.Join(err, errAsk)
			}
		}
	}
	slices.SortFunc(jobs, func(a, b Job) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.ID, b.ID), a.Node-b.Node) })
	return jobs, err
}

// query sends a request to a socket and returns the response. If the process that served the socket was killed, it removes the
// socket and returns [fs.ErrNotExist].
func query(ctx context.Context, path string, q *request) (*response, error) {
	if err := checkPrivate(path, fs.ModeSocket); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if errors.Is(err, unix.ECONNREFUSED) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, fmt.Errorf("%s was left by an ibrun that was killed: %w", path, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	a, err := exchange(conn.(*net.UnixConn), q)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("the ibrun at %s does not answer; it may be stopped", path)
	case err != nil:
		return nil, fmt.Errorf("query %s: %w", path, err)
	case a.Error != "":
		return nil, fmt.Errorf("the ibrun at %s: %s", path, a.Error)
	}
	a.Job.path = path
	return a, nil
}

func exchange(c *net.UnixConn, q *request) (*response, error) {
	if user, err := peerUID(c); err != nil || user != os.Geteuid() {
		return nil, errors.Join(err, fmt.Errorf("refused: the socket is served by user %d", user))
	}
	if err := json.NewEncoder(c).Encode(q); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(c, maxResponse))
	if err != nil {
		return nil, err
	}
	return decodeResponse(text)
}

// remoteSource is a source that queries the socket of a job.
type remoteSource struct{ job Job }

// Remote returns a source for a job that [Jobs] has found.
func (j Job) Remote() Source { return &remoteSource{j} }

func (r *remoteSource) Job() Job { return r.job }

func (r *remoteSource) Ranks(ctx context.Context) ([]Rank, error) {
	a, err := r.query(ctx, &request{Ranks: true})
	if err != nil {
		return nil, err
	}
	return a.Ranks, nil
}

func (r *remoteSource) Stacks(ctx context.Context, ranks []int) (map[int]string, error) {
	if len(ranks) == 0 {
		return nil, nil
	}
	a, err := r.query(context.WithoutCancel(ctx), &request{Stacks: ranks}) // the server has the same timeout
	if err != nil {
		return nil, err
	}
	return a.Stacks, nil
}

// query sends a request to the socket where the job was found.
func (r *remoteSource) query(ctx context.Context, q *request) (*response, error) {
	a, err := query(ctx, r.job.path, q)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("job %s: %w", r.job.ID, errJobEnded)
	}
	return a, err
}
