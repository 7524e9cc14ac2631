package launch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
)

// build builds a Go package directory or .go file into the user's cache and returns the path of the program. Every source has
// one file there, so the go command notices when nothing has changed, and a second start does not link again. Concurrent builds
// do not disturb each other: each writes to a file of its own and renames it at the end, and a running rank keeps its file.
func build(ctx context.Context, source string, debug bool, stderr io.Writer) (path string, err error) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		return "", exitcode.Errorf(exitcode.NotFound, "%s is Go source, but there is no go command in PATH to build it",
			source)
	}
	dir, what, name := filepath.Dir(source), source, strings.TrimSuffix(filepath.Base(source), ".go")
	if name == filepath.Base(source) {
		dir, what = source, "."
	}
	args := []string{"build"}
	if debug {
		args = append(args, "-gcflags=all=-N -l") // without optimization, for the debugger
	}
	cache, err := cacheDir(source, args)
	if err != nil {
		return "", exitcode.Errorf(exitcode.Failed, "create the cache directory for the built program: %w", err)
	}
	path = filepath.Join(cache, name)
	work, err := os.MkdirTemp(cache, "build-")
	if err != nil {
		return "", exitcode.Errorf(exitcode.Failed, "build %s: %w", source, err)
	}
	defer os.RemoveAll(work)
	fresh := filepath.Join(work, name)
	// The go command compares with the previous build to find out whether anything has changed. It replaces the file and does
	// not write into it.
	if err := os.Link(path, fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", exitcode.Errorf(exitcode.Failed, "build %s: %w", source, err)
	}
	cmd := exec.CommandContext(ctx, goTool, append(args, "-o", fresh, what)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, stderr, stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Run(); ctx.Err() != nil {
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
