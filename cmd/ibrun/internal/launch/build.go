package launch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
)

// build builds a Go package directory or .go file into the user's cache and returns the path of the program. Every source has
// one file there, so the go command notices when nothing has changed, and a second start does not link again. Concurrent builds
// do not disturb each other: each writes to a file of its own and renames it at the end, and a running rank keeps its file.
func build(ctx context.Context, w startedWatcher, source string, debug bool, stderr *os.File) (path string, err error) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		return "", exitcode.Errorf(exitcode.NotFound, "%s is Go source, but there is no go command in PATH to build it",
			source)
	}
	dir, what, name := filepath.Dir(source), source, strings.TrimSuffix(filepath.Base(source), ".go")
	if name == filepath.Base(source) {
		dir, what = source, "."
	}
	args := []string{"go", "build"}
	if debug {
		args = append(args, "-gcflags=all=-N -l") // without optimization, for the debugger
	}
	cache, err := cacheDir(source, args)
	if err != nil {
		return "", exitcode.Errorf(exitcode.Failed, "create the cache directory for the built program: %w", err)
	}
	path = filepath.Join(cache, name)
	removeStaleBuilds(cache)
	work, err := os.MkdirTemp(cache, buildPrefix)
	if err != nil {
		return "", exitcode.Errorf(exitcode.Failed, "build %s: %w", source, err)
	}
	defer os.RemoveAll(work)
	// What the go command needs itself is in a directory of its own too: it cannot remove that if it is killed.
	temporary, err := os.MkdirTemp(os.Getenv("GOTMPDIR"), "ibrun-build-")
	if err != nil {
		return "", exitcode.Errorf(exitcode.Failed, "build %s: %w", source, err)
	}
	defer os.RemoveAll(temporary)
	fresh := filepath.Join(work, name)
	// The go command compares with the previous build to find out whether anything has changed. It replaces the file and does
	// not write into it.
	if err := os.Link(path, fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", exitcode.Errorf(exitcode.Failed, "build %s: %w", source, err)
	}
	err = w.runBuild(ctx, &goCommand{path: goTool, args: append(args, "-o", fresh, what), dir: dir,
		env: []string{"GOTMPDIR=" + temporary, "PWD=" + dir}, output: stderr, work: []string{work, temporary}})
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	} else if err != nil {
		return "", exitcode.Errorf(exitcode.Failed, "go build %s: %w", source, err)
	}
	if info, err := os.Stat(fresh); err != nil || info.Mode()&0o100 == 0 {
		return "", exitcode.Errorf(exitcode.NotExecutable, "%s cannot be started: it is not a main package", source)
	}
	if err := os.Rename(fresh, path); err != nil {
		return "", exitcode.Errorf(exitcode.Failed, "build %s: %w", source, err)
	}
	return path, nil
}

// goCommand is a go command that builds a program.
type goCommand struct {
	path   string
	args   []string
	dir    string
	env    []string // in addition to the environment of ibrun
	output *os.File
	work   []string // directories that are of no use once the command has ended
}

const (
	buildPrefix = "build-"
	// staleAfter is how old the work directory of a build is when its ibrun has certainly died. The cache may be shared by
	// machines, so that the process cannot be looked up.
	staleAfter = 24 * time.Hour
)

// removeStaleBuilds removes the work directories of builds whose ibrun and watcher were both killed.
func removeStaleBuilds(cache string) {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return // the creation of the next one reports the error
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), buildPrefix) && time.Since(info.ModTime()) > staleAfter {
			_ = os.RemoveAll(filepath.Join(cache, e.Name())) // it may belong to another user
		}
	}
}

// cacheDir creates the cache directory for one source and one set of build flags.
func cacheDir(source string, args []string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%q %q", source, args))
	dir := filepath.Join(cache, "ibrun", fmt.Sprintf("%x", key[:8]))
	return dir, os.MkdirAll(dir, 0o700)
}
