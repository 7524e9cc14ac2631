package needtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// recorder is a test that keeps how it ended.
type recorder struct {
	testing.TB
	end string
}

func (r *recorder) Helper() {}

func (r *recorder) Skipf(format string, args ...any) { r.exit("skip: ", format, args) }

func (r *recorder) Fatalf(format string, args ...any) { r.exit("fail: ", format, args) }

func (r *recorder) exit(how, format string, args []any) {
	r.end = how + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// endOf returns how f ends its test; "" if it does not.
func endOf(t *testing.T, f func(tb testing.TB)) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r.end
}

// TestMissing: what is missing skips a test, and fails it in CI. Both name it.
func TestMissing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for name, c := range map[string]struct {
		f    func(tb testing.TB)
		want string // begins the message
	}{
		"any":       {func(tb testing.TB) { Missing(tb, "%d gold coins", 3) }, "needs 3 gold coins"},
		"program":   {func(tb testing.TB) { Program(tb, "nft", "nftables") }, "needs nft: apt-get install nftables"},
		"namespace": {func(tb testing.TB) { Namespaces(tb, "--mount") }, "needs unshare: apt-get install util-linux"},
		"network":   {Networks, "needs ip: apt-get install iproute2"},
	} {
		for ci, how := range map[string]string{"": "skip: ", "true": "fail: "} {
			t.Setenv("CI", ci)
			if got := endOf(t, c.f); got != how+c.want {
				t.Errorf("%s, CI=%s: %q, want %q", name, ci, got, how+c.want)
			}
		}
	}
}

// TestPresent: a program that is there is found.
func TestPresent(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	want := filepath.Join(dir, "tool")
	if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var got string
	if end := endOf(t, func(tb testing.TB) { got = Program(tb, "tool", "tools") }); end != "" || got != want {
		t.Errorf("%q, %q, want %q", end, got, want)
	}
}

// TestRoot: a test that needs root runs as root, and is skipped otherwise.
func TestRoot(t *testing.T) {
	t.Setenv("CI", "")
	want := ""
	if os.Geteuid() != 0 {
		want = "skip: needs root, to rule"
	}
	if got := endOf(t, func(tb testing.TB) { Root(tb, "to rule") }); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRights: Namespaces skips the test exactly if unshare fails, and the message has the output of unshare.
func TestRights(t *testing.T) {
	t.Setenv("CI", "")
	Program(t, "unshare", "util-linux")
	for _, flag := range []string{"--mount", "--net", "--no-such-namespace"} {
		end := endOf(t, func(tb testing.TB) { Namespaces(tb, flag) })
		out, err := exec.Command("unshare", flag, "true").CombinedOutput()
		missing := strings.HasPrefix(end, "skip: needs ") && strings.Contains(end, strings.TrimSpace(string(out)))
		if missing != (err != nil) {
			t.Errorf("%s: %q, but %v: %s", flag, end, err, out)
		}
	}
}

// TestNetworks: where networks may be made, the trial leaves none behind.
func TestNetworks(t *testing.T) {
	list := func() []string {
		names, err := filepath.Glob("/run/netns/" + trialPrefix() + "*")
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	before := list() // a process that had this number may have been killed
	Networks(t)
	if left := list(); !slices.Equal(left, before) {
		t.Errorf("%q are left, %q before", left, before)
	}
}
