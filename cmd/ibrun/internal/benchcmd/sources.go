package benchcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// peerProgram is the C program that makes the measurements of package bench over another MPI.
	// It is in the sources of ibrun, and not in the program: only a comparison needs it.
	peerProgram = "bench/testdata/peer.c"
	// sourcesModule is the module of the sources.
	sourcesModule = "github.com/ibrun/ibrun"
)

// sourcesFlag adds the flag that says where the sources of ibrun are.
func sourcesFlag(f *flags, dir *string) {
	f.StringVar(dir, "sources", "", "with the C program in the sources of ibrun in `DIR`\n"+
		"(default those of the Go module in the working directory)")
}

// findPeerProgram returns the path of the C program: in dir or, if dir is empty, in the module of
// ibrun that the working directory belongs to, or whose packages it uses.
func findPeerProgram(ctx context.Context, dir string) (string, error) {
	const remedy = "git clone https://" + sourcesModule + ", and run this command there, or with --sources DIR"
	given := dir != ""
	if !given {
		// The go command finds a module as it does for a program that ibrun builds. It does not
		// download one.
		out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", sourcesModule).Output()
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if dir = strings.TrimSpace(string(out)); err != nil || dir == "" {
			return "", errors.New("a comparison with another MPI builds a C program, which is in the sources of ibrun, and they were " +
				"not found from this directory: " + remedy)
		}
	}
	path, err := filepath.Abs(filepath.Join(dir, filepath.FromSlash(peerProgram)))
	if err == nil {
		_, err = os.Stat(path)
	}
	switch {
	case given && errors.Is(err, fs.ErrNotExist):
		return "", usagef("--sources %s: this is no folder with the sources of ibrun: it has no %s", dir, peerProgram)
	case err != nil:
		return "", fmt.Errorf("find the C program: %w; %s", err, remedy)
	}
	return path, nil
}
