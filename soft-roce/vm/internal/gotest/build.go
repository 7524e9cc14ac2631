package gotest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
)

// Package is a package whose tests are to be run.
type Package struct {
	ImportPath string
	// Dir is the directory in which its test program runs.
	Dir string
	// Binary is the test program; empty where the package has no tests.
	Binary string
	// The names of test files, as `go list` gives them.
	TestGoFiles, XTestGoFiles []string
}

// Build builds the test program of each package into directory to, and returns the packages in the order of go list.
// It writes the output of the go command to stderr. The go command runs in the working directory of the process.
func (c *Command) Build(ctx context.Context, to string, stderr io.Writer) ([]Package, error) {
	packages, err := c.list(ctx, stderr)
	if err != nil {
		return nil, err
	}
	if len(packages) == 0 {
		return nil, fmt.Errorf("%w: no packages to test", ErrBuild)
	}
	stderr = &syncWriter{to: stderr}
	failed := make([]error, len(packages))
	slots := make(chan struct{}, runtime.NumCPU())
	var all sync.WaitGroup
	for i := range packages {
		p := &packages[i]
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		p.Binary = filepath.Join(to, strconv.Itoa(i), filepath.Base(p.Dir)+".test")
		all.Go(func() {
			slots <- struct{}{}
			failed[i] = c.build(ctx, p, stderr)
			<-slots
		})
	}
	all.Wait()
	return packages, errors.Join(failed...)
}

func (c *Command) list(ctx context.Context, stderr io.Writer) ([]Package, error) {
	args := append([]string{"list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles"}, c.BuildFlags...)
	cmd := exec.CommandContext(ctx, "go", append(append(args, "--"), c.Packages...)...)
	cmd.Stderr = stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: go list: %w", ErrBuild, err)
	}
	var packages []Package
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p Package
		if err := d.Decode(&p); err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, p)
	}
	return packages, nil
}

// filesGiven is the import path of a package that was given as a list of files.
const filesGiven = "command-line-arguments"

func (c *Command) build(ctx context.Context, p *Package, stderr io.Writer) error {
	if err := os.MkdirAll(filepath.Dir(p.Binary), 0o755); err != nil {
		return err
	}
	args := append([]string{"test", "-c", "-o", p.Binary}, c.BuildFlags...)
	if p.ImportPath == filesGiven {
		args = append(args, c.Packages...)
	} else {
		args = append(args, p.ImportPath)
	}
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	if _, errWrite := stderr.Write(output.Bytes()); errWrite != nil {
		return errWrite
	}
	if err != nil {
		return fmt.Errorf("%w: FAIL\t%s [build failed]", ErrBuild, p.ImportPath)
	}
	return nil
}

// syncWriter serializes the writes of concurrent builds.
type syncWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (t *syncWriter) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.to.Write(b)
}
