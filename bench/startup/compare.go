package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/ibrun/ibrun/internal/samples"
)

// times are the times of one job, from the start of the launcher.
type times struct{ init, finalize, exit time.Duration }

// part is one of the times that are compared.
type part struct {
	name string
	of   func(times) time.Duration
}

// compare runs a case under both launchers alternately, and prints the result.
func (s *settings) compare(name string, net *network) error {
	parts := []part{
		{"until the last Init", func(t times) time.Duration { return t.init }},
		{"Finalize, after the last Init", func(t times) time.Duration { return t.finalize - t.init }},
		{"end, after the last Finalize", func(t times) time.Duration { return t.exit - t.finalize }},
		{"the whole job", func(t times) time.Duration { return t.exit }},
	}
	if name == "true" || name == "one" {
		parts = parts[3:]
	}
	results := map[string][]times{}
	for round := range s.rounds {
		launchers := []string{s.ibrun, s.other}
		if round%2 == 1 {
			slices.Reverse(launchers)
		}
		for _, l := range launchers {
			t, err := s.job(name, l, net)
			if err != nil {
				return fmt.Errorf("%s: %w", l, err)
			}
			results[l] = append(results[l], t)
			if s.showEachRound {
				fmt.Printf("%-8s round %2d %-20s Init %v, Finalize %v, exit %v\n", name, round, filepath.Base(l), t.init, t.finalize, t.exit)
			}
		}
	}
	for _, p := range parts {
		ours, theirs := durations(results[s.ibrun], p), durations(results[s.other], p)
		mean, low, high := samples.Ratio(theirs, ours)
		fmt.Printf("%-8s %-30s ibrun %8.1f ms, %s %8.1f ms, ratio %.3f [%.3f, %.3f]\n", name, p.name, samples.Median(ours),
			filepath.Base(s.other), samples.Median(theirs), mean, low, high)
	}
	return nil
}

// durations returns one of the times of several jobs, in milliseconds.
func durations(list []times, p part) (ms []float64) {
	for _, t := range list {
		ms = append(ms, float64(p.of(t))/float64(time.Millisecond))
	}
	return ms
}

// job runs one job of a case, and returns its times.
func (s *settings) job(name, launcher string, net *network) (t times, err error) {
	n := map[string]int{"nodes": s.ranks, "true": s.ranks, "machine": s.machine, "one": 2}[name]
	if n == 0 {
		return t, errors.New("there is no such case")
	}
	file := filepath.Join(s.dir, "times")
	if err := os.WriteFile(file, make([]byte, n*rankBytes), 0o600); err != nil {
		return t, err
	}
	program := []string{"/bin/true"}
	if name == "nodes" || name == "machine" {
		program = []string{s.rank, rankCommand, file}
		if launcher == s.other {
			program[0] = s.otherRank
		}
	}
	var commands []*exec.Cmd
	switch {
	case name == "machine" || name == "one":
		commands = []*exec.Cmd{exec.Command(launcher, append([]string{"-n", fmt.Sprint(n)}, program...)...)}
	case isHydra(launcher):
		commands = []*exec.Cmd{s.hydraOnNodes(launcher, net, program)}
	default:
		if commands, err = s.ibrunOnNodes(launcher, net, program); err != nil {
			return t, err
		}
	}
	began := time.Now()
	if err := runAll(commands); err != nil {
		return t, err
	}
	t.exit = time.Since(began)
	if len(program) == 1 {
		return t, nil
	}
	lastInit, lastFinalize, err := readTimes(file, n)
	t.init, t.finalize = lastInit.Sub(began), lastFinalize.Sub(began)
	return t, err
}

// runAll starts commands, and blocks until all have ended. If one fails, its output is part of the error.
func runAll(commands []*exec.Cmd) error {
	output := make([]bytes.Buffer, len(commands))
	var errs []error
	for i, c := range commands {
		c.Stdout, c.Stderr = &output[i], &output[i]
		if err := c.Start(); err != nil {
			errs = append(errs, err)
			commands = commands[:i]
			break
		}
	}
	for i, c := range commands {
		if len(errs) > 0 {
			_ = c.Process.Kill() // it may have ended
		}
		if err := c.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w: %s", c.Path, err, output[i].Bytes()))
		}
	}
	return errors.Join(errs...)
}
