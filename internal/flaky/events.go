package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

const module = "github.com/ibrun/ibrun/"

// event is an event of go test -json, as go doc test2json describes it.
type event struct {
	Action, Package, Test, Output string
}

// failure is a test that has failed at least once, or a package in which no test has.
type failure struct {
	pkg, test string // test is the name of a function, or "" for the package
	message   string
	counts    string // why the failure counts; "": the test has passed when it was run again
}

func (f failure) String() string {
	name := strings.TrimPrefix(f.pkg, module)
	if f.test != "" {
		name += "." + f.test
	}
	if f.counts != "" {
		return fmt.Sprintf("failed: %s: %s (%s)", name, f.message, f.counts)
	}
	return fmt.Sprintf("flaky: %s: %s", name, f.message)
}

var (
	// onceOnly matches the names of tests whose second run proves nothing.
	onceOnly = regexp.MustCompile(`Alloc|Leak|^Fuzz`)
	// counted matches the messages of tests that count allocations or look for leaks, whatever the names of the tests are. The word
	// allocation alone is not enough: Slurm has allocations, too.
	counted = regexp.MustCompile(`\d allocations|allocates \d+ times|leaks resources`)
	// crash matches what a program prints when it crashes, or has a data race. It may be a program that the test has started.
	crash = regexp.MustCompile(`WARNING: DATA RACE|panic: |fatal error: `)
	// located matches a line that a call such as t.Errorf has printed.
	located = regexp.MustCompile(`^\s*(\w+\.go:\d+: .*)`)
)

// onceOnlyPackages are the packages all of whose tests are in onceOnly.
var onceOnlyPackages = []string{module + "internal/archtest"}

// Why failures count.
const (
	neverPassed   = "it has not passed"
	onceOnlyTest  = "a second run of such a test proves nothing"
	crashed       = "a program crashed, or had a data race"
	endedEarly    = "the program ended while it ran"
	noTestFailed  = "the package failed, but none of its tests"
	noTestMessage = "see its output"
)

// run is the current run of a test with its subtests, or the last one.
type run struct {
	running bool
	message string // the last one
	counts  string // why a failure of this run counts, even if a later run passes; "": it does not
}

// reader collects the failures of several runs, which are in the file one after the other.
type reader struct {
	failures map[[2]string]*failure // by package and test
	runs     map[[2]string]*run     // by package and test
	failed   map[string]bool        // whether a test has failed in the current run of a package
}

// read returns the failures, sorted by package and test.
func read(r io.Reader) ([]failure, error) {
	c := reader{failures: map[[2]string]*failure{}, runs: map[[2]string]*run{}, failed: map[string]bool{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		c.add(e)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	all := []failure{}
	for _, f := range c.failures {
		all = append(all, *f)
	}
	slices.SortFunc(all, func(a, b failure) int { return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test)) })
	return all, nil
}

// add takes one event. The result of a subtest is that of its test; what it prints is printed by its test.
func (c *reader) add(e event) {
	test, _, isSubtest := strings.Cut(e.Test, "/")
	key := [2]string{e.Package, test}
	switch {
	case e.Action == "output":
		c.printed(key, e.Output)
	case isSubtest:
	case test == "" && e.Action == "fail":
		c.packageFailed(e.Package)
	case test == "":
	case e.Action == "run":
		c.runs[key] = &run{running: true}
	case e.Action == "fail":
		c.failed[e.Package] = true
		c.ended(key)
		c.fail(key, cmp.Or(c.runs[key].counts, neverPassed))
	case e.Action == "pass":
		c.ended(key)
		if f := c.failures[key]; f != nil && f.counts == neverPassed {
			f.counts = ""
		}
	case e.Action == "skip":
		c.ended(key)
	}
}

// of returns the run of a test. The name "" is that of the package.
func (c *reader) of(key [2]string) *run {
	if c.runs[key] == nil {
		c.runs[key] = &run{}
	}
	return c.runs[key]
}

func (c *reader) ended(key [2]string) { c.of(key).running = false }

// printed takes a line that a test has printed.
func (c *reader) printed(key [2]string, line string) {
	r := c.of(key)
	if m := located.FindStringSubmatch(line); m != nil {
		r.message = m[1]
	}
	switch {
	case crash.MatchString(line):
		r.counts = crashed
	case r.counts == "" && counted.MatchString(line):
		r.counts = onceOnlyTest
	}
}

// fail records a failure of a test. The first one is kept if it counts.
func (c *reader) fail(key [2]string, counts string) {
	pkg, test := key[0], key[1]
	if counts == neverPassed && (onceOnly.MatchString(test) || slices.Contains(onceOnlyPackages, pkg)) {
		counts = onceOnlyTest
	}
	if old := c.failures[key]; old != nil && old.counts != "" && (old.counts != neverPassed || counts == neverPassed) {
		return
	}
	c.failures[key] = &failure{pkg: pkg, test: test, message: cmp.Or(c.of(key).message, noTestMessage), counts: counts}
}

// packageFailed takes the end of a package that has failed. The tests that were running have no result of their own.
func (c *reader) packageFailed(pkg string) {
	for key, r := range c.runs {
		if key[0] == pkg && r.running {
			r.running = false
			c.failed[pkg] = true
			c.fail(key, endedEarly)
		}
	}
	if !c.failed[pkg] {
		c.fail([2]string{pkg, ""}, noTestFailed)
	}
	delete(c.failed, pkg)
}
