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

// Jobs finds the jobs of this user whose ibrun runs on this machine, the oldest first. It removes what ibruns that were killed
// have left. The error tells of what could not be looked at, beside the jobs that could.
func Jobs(ctx context.Context) (jobs []Job, err error) {
	for _, dir := range directories(os.Getenv) {
		files, errDir := os.ReadDir(dir)
		if errDir == nil {
			errDir = owned(dir, fs.ModeDir)
		} else if errors.Is(errDir, fs.ErrNotExist) {
			continue
		}
		if errDir != nil {
			err = errors.Join(err, errDir)
			continue
		}
		for _, f := range files {
			if strings.HasSuffix(f.Name(), ".new") {
				continue // in a moment
			}
			a, errAsk := ask(ctx, filepath.Join(dir, f.Name()), &question{})
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

// ask asks at a socket. One at which nobody will ever answer is removed, and is [fs.ErrNotExist].
func ask(ctx context.Context, path string, q *question) (*answer, error) {
	if err := owned(path, fs.ModeSocket); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
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
	a, err := talk(conn.(*net.UnixConn), q)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("the ibrun at %s does not answer; it may be stopped", path)
	case err != nil:
		return nil, fmt.Errorf("ask at %s: %w", path, err)
	case a.Error != "":
		return nil, fmt.Errorf("the ibrun at %s: %s", path, a.Error)
	}
	a.Job.path = path
	return a, nil
}

func talk(c *net.UnixConn, q *question) (*answer, error) {
	if user, err := userOf(c); err != nil || user != os.Geteuid() {
		return nil, errors.Join(err, fmt.Errorf("refused: user %d answers there", user))
	}
	if err := json.NewEncoder(c).Encode(q); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(c, maxAnswer))
	if err != nil {
		return nil, err
	}
	return decodeAnswer(text)
}

// remote is a source at the other end of a socket.
type remote struct{ job Job }

// Remote asks about the ranks of a job that Jobs has found.
func (j Job) Remote() Source { return &remote{j} }

func (r *remote) Job() Job { return r.job }

func (r *remote) Ranks(ctx context.Context) ([]Rank, error) {
	a, err := r.ask(ctx, &question{Ranks: true})
	if err != nil {
		return nil, err
	}
	return a.Ranks, nil
}

func (r *remote) Stacks(ctx context.Context, ranks []int) (map[int]string, error) {
	if len(ranks) == 0 {
		return nil, nil
	}
	a, err := r.ask(context.WithoutCancel(ctx), &question{Stacks: ranks}) // the other side has the same patience
	if err != nil {
		return nil, err
	}
	return a.Stacks, nil
}

// ask asks where the job was found.
func (r *remote) ask(ctx context.Context, q *question) (*answer, error) {
	a, err := ask(ctx, r.job.path, q)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("job %s has ended: %w", r.job.ID, errGone)
	}
	return a, err
}
