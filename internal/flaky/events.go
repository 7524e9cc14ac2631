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
	// onceOnly matches the tests whose second run says nothing.
	onceOnly = regexp.MustCompile(`Alloc|Leak|^Fuzz`)
	// located matches a line that a call such as t.Errorf has printed.
	located = regexp.MustCompile(`^\s*(\w+\.go:\d+: .*)`)
)

// onceOnlyPackages are the packages all of whose tests are in onceOnly.
var onceOnlyPackages = []string{module + "internal/archtest"}

// reader collects the failures of several runs, which are in the file one after the other.
type reader struct {
	failures map[[2]string]*failure     // by package and test
	messages map[[2]string]string       // the last message of the current run of a test
	failed   map[string]map[string]bool // the tests of the current run of a package that have failed
}

// read returns the failures, sorted by package and test.
func read(r io.Reader) ([]failure, error) {
	c := reader{failures: map[[2]string]*failure{}, messages: map[[2]string]string{}, failed: map[string]map[string]bool{}}
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

// add takes one event. The result of a subtest is that of its test; its messages are those of its test.
func (c *reader) add(e event) {
	test, _, isSubtest := strings.Cut(e.Test, "/")
	key := [2]string{e.Package, test}
	switch e.Action {
	case "output":
		if m := located.FindStringSubmatch(e.Output); m != nil {
			c.messages[key] = m[1]
		}
	case "fail":
		if test == "" {
			c.packageFailed(e.Package)
		} else if !isSubtest {
			c.testFailed(key)
		}
	case "pass", "skip":
		if test == "" {
			delete(c.failed, e.Package)
		} else if f := c.failures[key]; f != nil && !isSubtest && f.counts == neverPassed && e.Action == "pass" {
			f.counts = ""
		}
	}
}

// Why failures count.
const (
	neverPassed   = "it did not pass when it was run again"
	runOnce       = "a test of this kind is not run again"
	noTestFailed  = "the package failed, but none of its tests"
	noTestMessage = "see its output"
)

func (c *reader) testFailed(key [2]string) {
	pkg, test := key[0], key[1]
	if c.failed[pkg] == nil {
		c.failed[pkg] = map[string]bool{}
	}
	c.failed[pkg][test] = true
	counts := neverPassed
	if onceOnly.MatchString(test) || slices.Contains(onceOnlyPackages, pkg) {
		counts = runOnce
	}
	if old := c.failures[key]; old != nil && old.counts != "" {
		return // the first message is kept
	}
	c.failures[key] = &failure{pkg: pkg, test: test, message: cmp.Or(c.messages[key], noTestMessage), counts: counts}
}

func (c *reader) packageFailed(pkg string) {
	if len(c.failed[pkg]) == 0 {
		c.failures[[2]string{pkg, ""}] = &failure{pkg: pkg, message: noTestMessage, counts: noTestFailed}
	}
	delete(c.failed, pkg)
}
