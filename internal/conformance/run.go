package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"time"
)

// outcome is the result of a test.
type outcome string

const (
	passed     outcome = "pass"
	failed     outcome = "fail"
	skipped    outcome = "skip"
	unfinished outcome = "unfinished" // it started but did not end
)

// nodeLayout is the distribution of ranks over nodes during a run of the tests.
type nodeLayout struct {
	name string
	env  []string
}

func nodeLayouts() []nodeLayout {
	return []nodeLayout{
		{name: "one node"},
		{name: "several nodes", env: []string{"IBRUN_TRANSPORT=tcp", "IBRUN_TCP_INTERFACES=lo"}},
	}
}

// results are the outcomes of tests, by name with the package in front: mpi.TestSplit/S0-57.
type results map[string]outcome

// event has the fields of the output of go test -json that are used here.
type event struct {
	Action string
	Test   string
	Output string
	Key    string // of an attribute
	Value  string
}

// add adds the results of another suite.
func (r results) add(more results) { maps.Copy(r, more) }

// of returns those of one package.
func (r results) of(dir string) results {
	of := maps.Clone(r)
	maps.DeleteFunc(of, func(name string, _ outcome) bool { return !strings.HasPrefix(name, dir+".") })
	return of
}

// markUnfinished marks the tests as unfinished that ran elsewhere but not here. An earlier test may have ended the program.
func (r results) markUnfinished(elsewhere results) {
	for name := range elsewhere {
		if _, ran := r[name]; !ran {
			r[name] = unfinished
		}
	}
}

// readEvents adds the results of a package, and records the scope of its tests.
func (r results) readEvents(dir string, events io.Reader, output io.Writer, scopesOf scopes) error {
	d := json.NewDecoder(events)
	for {
		var e event
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the output of go test for %s: %w", dir, err)
		}
		if e.Action == "output" || e.Action == "build-output" {
			if _, err := io.WriteString(output, e.Output); err != nil {
				return err
			}
		}
		if e.Test == "" {
			continue
		}
		name := dir + "." + e.Test
		switch e.Action {
		case "run":
			r[name] = unfinished
		case "pass", "fail", "skip":
			r[name] = outcome(e.Action)
		case "attr":
			if err := scopesOf.note(name, e.Key, e.Value); err != nil {
				return err
			}
		}
	}
}

// run runs the tests of a suite. It returns no error if tests fail, or if they cannot be built; then there are no results.
func (s *suite) run(ctx context.Context, root string, at nodeLayout, output io.Writer, scopesOf scopes) (results, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-timeout=10m",
		"-run=^("+strings.Join(s.tests, "|")+")$", "./"+s.dir)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), at.env...)
	var stderr bytes.Buffer // of go itself; output takes one writer at a time
	cmd.Stderr = &stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("run the tests of %s: %w", s.dir, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run the tests of %s: %w", s.dir, err)
	}
	r := results{}
	err = r.readEvents(s.dir, events, output, scopesOf)
	var exit *exec.ExitError
	if waited := cmd.Wait(); waited != nil && !errors.As(waited, &exit) {
		err = errors.Join(err, fmt.Errorf("run the tests of %s: %w", s.dir, waited))
	}
	_, errOutput := output.Write(stderr.Bytes())
	return r, errors.Join(err, errOutput)
}
