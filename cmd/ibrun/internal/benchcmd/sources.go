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

// These programs are not in the program ibrun, because only comparisons use them. They are built
// from the sources of ibrun.
const (
	// peerProgram is the C program that makes the measurements of package bench over another MPI.
	peerProgram = "bench/testdata/peer.c"
	// referenceProgram is the Go program of internal/benchreference.
	referenceProgram = "bench/reference"
	// sourcesModule is the module of the sources.
	sourcesModule = "github.com/ibrun/ibrun"

	sourcesRemedy = "git clone https://" + sourcesModule + ", and run this command there, or with --sources DIR"
)

// errNoReference is wrapped by the errors of buildReference if there is no reference program:
// neither a built one, nor the sources and a go command to build one.
var errNoReference = errors.New("the reference program of ibrun is not there")

// programSources says where comparisons find what is not a part of ibrun.
type programSources struct {
	// dir is the folder of the sources. Empty: those of the Go module in the working directory.
	dir string
	// reference is the reference program. Empty: it is built from the sources.
	reference string
}

// sourcesFlag adds the flag that says where the sources of ibrun are.
func sourcesFlag(f *flags, s *programSources) {
	f.StringVar(&s.dir, "sources", "", "with the programs in the sources of ibrun in `DIR`\n"+
		"(default those of the Go module in the working directory)")
}

// referenceFlag adds the flag that says where the reference program is.
func referenceFlag(f *flags, s *programSources) {
	f.StringVar(&s.reference, "reference", "", "with the reference program `FILE`, for a machine without a go command\n"+
		"(default one that go build makes of "+referenceProgram+" in the sources)")
}

// find returns the path of a file or folder in the sources: those in s.dir or, if that is empty, in
// the module of ibrun that the working directory belongs to, or whose packages it uses. why says
// what needs them.
func (s *programSources) find(ctx context.Context, name, why string) (string, error) {
	dir := s.dir
	if dir == "" {
		// The go command finds a module as it does for a program that ibrun builds. It does not
		// download one.
		out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", sourcesModule).Output()
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if dir = strings.TrimSpace(string(out)); err != nil || dir == "" {
			return "", fmt.Errorf("%s, which is in the sources of ibrun, and they were not found from this directory: %s", why,
				sourcesRemedy)
		}
	}
	path, err := filepath.Abs(filepath.Join(dir, filepath.FromSlash(name)))
	if err == nil {
		_, err = os.Stat(path)
	}
	switch {
	case s.dir != "" && errors.Is(err, fs.ErrNotExist):
		return "", usagef("--sources %s: want a folder with the sources of ibrun; it lacks %s", dir, name)
	case err != nil:
		return "", fmt.Errorf("find %s: %w; %s", name, err, sourcesRemedy)
	}
	return path, nil
}

// findPeerProgram returns the path of the C program.
func (s *programSources) findPeerProgram(ctx context.Context) (string, error) {
	return s.find(ctx, peerProgram, "a comparison with another MPI builds a C program")
}

// buildReference returns the path of the reference program, which it builds in the folder to if it
// was not given.
func (s *programSources) buildReference(ctx context.Context, to string, environ []string) (string, error) {
	if s.reference != "" {
		path, err := filepath.Abs(s.reference)
		if err == nil {
			_, err = exec.LookPath(path)
		}
		if err != nil {
			return "", usagef("--reference %s: %w", s.reference, err)
		}
		return path, nil
	}
	tool, err := exec.LookPath("go")
	if err != nil {
		return "", fmt.Errorf("%w, and there is no go command in PATH to build it: build it on another machine (CGO_ENABLED=0 "+
			"go build ./%s in the sources), and name it with --reference FILE", errNoReference, referenceProgram)
	}
	source, err := s.find(ctx, referenceProgram, "this comparison builds a Go program")
	switch {
	case errors.As(err, new(usageError)) || ctx.Err() != nil:
		return "", err
	case err != nil:
		return "", fmt.Errorf("%w: %w, or with --reference FILE", errNoReference, err)
	}
	program := filepath.Join(to, filepath.Base(referenceProgram))
	// -C: in the module of the sources, which need not be that of the working directory.
	words := []string{tool, "build", "-C", source, "-buildvcs=false", "-o", program, "."}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = append(environ[:len(environ):len(environ)], "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", quoteCommand(words), err, tail(out))
	}
	return program, nil
}
