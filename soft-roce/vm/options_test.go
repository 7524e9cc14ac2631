package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for line, want := range map[string]options{
		"-- go test -v ./...":   {nodes: 1, timeout: defaultTimeout, command: []string{"go", "test", "-v", "./..."}},
		"ibv_devinfo -v":        {nodes: 1, timeout: defaultTimeout, command: []string{"ibv_devinfo", "-v"}},
		"-nodes 2 -v -- true":   {nodes: 2, timeout: defaultTimeout, verbose: true, command: []string{"true"}},
		"--timeout=90s -- true": {nodes: 1, timeout: 90 * time.Second, command: []string{"true"}},
		"-nodes=2 -netem loss\u00a05% -- a": {nodes: 2, netem: "loss\u00a05%", timeout: defaultTimeout,
			command: []string{"a"}},
	} {
		var stderr bytes.Buffer
		got, err := parse(strings.Split(line, " "), &stderr)
		if err != nil || got.nodes != want.nodes || got.netem != want.netem || got.timeout != want.timeout ||
			got.verbose != want.verbose || !slices.Equal(got.command, want.command) {
			t.Errorf("%s: %+v, %v, want %+v", line, got, err, want)
		}
	}
	for line, want := range map[string]string{
		"-nodes 3 -- true":      "-nodes 3",
		"-netem loss -- true":   "-netem needs -nodes 2",
		"-nodes 1 --":           "no command",
		"-timeout 0s -- true":   "-timeout",
		"-timeout soon -- true": "soon",
		"-such -- true":         "-such",
	} {
		var stderr bytes.Buffer
		if _, err := parse(strings.Split(line, " "), &stderr); err == nil || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: %v, stderr %q; want %q", line, err, stderr.String(), want)
		}
	}
}
