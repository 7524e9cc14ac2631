package launch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
)

// program is a program to start, found by the first word of its command line.
type program struct {
	path string // absolute
	isGo bool   // Go source that must be built: a directory or a .go file
}

// findProgram finds the program that a word means. A word with a slash is a path. Any other word is a program in one of the
// directories of path, or else a directory or .go file in the current directory.
func findProgram(word, path string) (program, error) {
	if strings.Contains(word, "/") || word == "." || word == ".." {
		return examinePath(word)
	}
	missing := exitcode.Errorf(exitcode.NotFound,
		"%s: no such program in PATH; a program in this directory is started as ./%[1]s", word)
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, word)
		info, err := os.Stat(file)
		if err != nil || info.IsDir() {
			continue
		}
		p, err := checkExecutable(file, info)
		if err == nil {
			return p, nil
		}
		missing = err
	}
	if p, err := examinePath(word); err == nil && p.isGo {
		return p, nil
	}
	return program{}, missing
}

// examinePath returns the program at a path.
func examinePath(path string) (program, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		return program{}, exitcode.Errorf(exitcode.NotFound, "%s: no such file or directory", path)
	case err != nil:
		return program{}, exitcode.Errorf(exitcode.NotExecutable, "%s cannot be started: %w", path, err)
	case info.IsDir():
		if err := checkGoFiles(path); err != nil {
			return program{}, err
		}
	case !strings.HasSuffix(path, ".go"):
		return checkExecutable(path, info)
	}
	abs, err := absolute(path)
	return program{abs, true}, err
}

func checkExecutable(path string, info fs.FileInfo) (program, error) {
	if !info.Mode().IsRegular() {
		return program{}, exitcode.Errorf(exitcode.NotExecutable, "%s cannot be started: it is not a file", path)
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		if info.Mode().Perm()&0o111 == 0 {
			return program{}, exitcode.Errorf(exitcode.NotExecutable, "%s cannot be started: %w; if it is a program: chmod +x %[1]s",
				path, err)
		}
		return program{}, exitcode.Errorf(exitcode.NotExecutable, "%s cannot be started: %w", path, err)
	}
	abs, err := absolute(path)
	return program{abs, false}, err
}

func absolute(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", exitcode.Errorf(exitcode.Failed, "find the current directory: %w", err)
	}
	return abs, nil
}

// checkGoFiles returns an error for a directory without Go files.
func checkGoFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return exitcode.Errorf(exitcode.NotExecutable, "directory %s cannot be read: %w", dir, err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") {
			return nil
		}
	}
	return exitcode.Errorf(exitcode.NotExecutable, "%s cannot be started: it is a directory without Go files", dir)
}
