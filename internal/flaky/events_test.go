package main

import (
	"fmt"
	"strings"
	"testing"
)

// events makes a file of go test -json out of lines "action package test output".
func events(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		f := append(strings.SplitN(line, " ", 4), "", "", "")
		fmt.Fprintf(&b, `{"Action":%q,"Package":%q,"Test":%q,"Output":%q}`+"\n", f[0], f[1], f[2], f[3])
	}
	return b.String()
}

// TestRead: a failure counts unless the test has passed in a later run, and some always count.
func TestRead(t *testing.T) {
	const (
		again = "(it has not passed)"
		once  = "(a second run of such a test proves nothing)"
		none  = "(the package failed, but none of its tests)"
		crash = "(a program crashed, or had a data race)"
		arch  = module + "internal/archtest"
	)
	for name, c := range map[string]struct {
		events []string
		want   string
	}{
		"all pass": {[]string{"pass a TestX", "pass a"}, ""},
		"flaky": {[]string{"output a TestX     x_test.go:1: seed", "output a TestX/sub     x_test.go:2: wrong", "fail a TestX/sub",
			"fail a TestX", "fail a", "pass a TestX/sub", "pass a TestX", "pass a"}, "flaky: a.TestX: x_test.go:2: wrong"},
		"never passes": {[]string{"output a TestX     x_test.go:2: wrong", "fail a TestX", "fail a",
			"output a TestX     x_test.go:2: again", "fail a TestX", "fail a"}, "failed: a.TestX: x_test.go:2: wrong " + again},
		"third time": {[]string{"fail a TestX", "fail a", "fail a TestX", "fail a", "pass a TestX", "pass a"},
			"flaky: a.TestX: see its output"},
		"skipped the second time": {[]string{"fail a TestX", "fail a", "skip a TestX", "pass a"},
			"failed: a.TestX: see its output " + again},
		"another test passes": {[]string{"fail a TestX", "fail a", "pass a TestY", "pass a TestX/sub", "pass b TestX"},
			"failed: a.TestX: see its output " + again},
		"allocations": {[]string{"fail a TestNoAllocs", "fail a", "pass a TestNoAllocs", "pass a"},
			"failed: a.TestNoAllocs: see its output " + once},
		"leaks": {[]string{"fail a TestLeaksNothing", "fail a", "pass a TestLeaksNothing", "pass a"},
			"failed: a.TestLeaksNothing: see its output " + once},
		"fuzz seeds": {[]string{"fail a FuzzX/seed#0", "fail a FuzzX", "fail a", "pass a FuzzX", "pass a"},
			"failed: a.FuzzX: see its output " + once},
		"architecture": {[]string{"fail " + arch + " TestLayers", "fail " + arch, "pass " + arch + " TestLayers"},
			"failed: internal/archtest.TestLayers: see its output " + once},
		"allocations by another name": {[]string{"output a TestX     x_test.go:1: 2 allocations", "fail a TestX", "fail a",
			"pass a TestX", "pass a"}, "failed: a.TestX: x_test.go:1: 2 allocations " + once},
		"allocations in other words": {[]string{"output a TestX     x_test.go:1: a call allocates 1 times", "fail a TestX", "fail a",
			"pass a TestX", "pass a"}, "failed: a.TestX: x_test.go:1: a call allocates 1 times " + once},
		"allocation of Slurm": {[]string{"output a TestX     x_test.go:1: Granted job allocation 7", "fail a TestX", "fail a",
			"pass a TestX", "pass a"}, "flaky: a.TestX: x_test.go:1: Granted job allocation 7"},
		"leak by another name": {[]string{"output a TestX     x_test.go:1: the test leaks resources:", "fail a TestX", "fail a",
			"pass a TestX", "pass a"}, "failed: a.TestX: x_test.go:1: the test leaks resources: " + once},
		"panic of a rank": {[]string{"output a TestX         panic: index out of range", "fail a TestX", "fail a",
			"pass a TestX", "pass a"}, "failed: a.TestX: see its output " + crash},
		"data race of a rank": {[]string{"output a TestX     | WARNING: DATA RACE", "fail a TestX", "fail a",
			"pass a TestX", "pass a"}, "failed: a.TestX: see its output " + crash},
		"panic that a test expects": {[]string{"run a TestX", "output a TestX     panic: yes", "pass a TestX", "pass a"}, ""},
		"earlier panic": {[]string{"run a TestX", "output a TestX panic: yes", "pass a TestX", "fail a TestY", "fail a",
			"run a TestX", "fail a TestX", "fail a", "pass a TestX", "pass a TestY", "pass a"},
			"flaky: a.TestX: see its output\nflaky: a.TestY: see its output"},
		"crash after a failure": {[]string{"run a TestX", "fail a TestX", "run a TestY", "fail a",
			"pass a TestX", "pass a TestY", "pass a"},
			"flaky: a.TestX: see its output\nfailed: a.TestY: see its output (the program ended while it ran)"},
		"no test failed": {[]string{"pass a TestX", "fail a", "pass a"}, "failed: a: see its output " + none},
		"no test failed later": {[]string{"fail a TestX", "fail a", "pass a TestX", "fail a"},
			"failed: a: see its output " + none + "\nflaky: a.TestX: see its output"},
	} {
		t.Run(name, func(t *testing.T) {
			failures, err := read(strings.NewReader(events(c.events...)))
			if err != nil {
				t.Fatal(err)
			}
			lines := []string{}
			for _, f := range failures {
				lines = append(lines, f.String())
			}
			if got := strings.Join(lines, "\n"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// A file that is not a list of events is an error, which names the line.
func TestMalformed(t *testing.T) {
	_, err := read(strings.NewReader(events("pass a TestX") + "panic\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
		t.Errorf("got %v", err)
	}
}
