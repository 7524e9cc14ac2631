package clustertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ibrun/ibrun/internal/docpages"
)

// TestPages types the commands of README.md and docs that need Slurm or ssh, and compares their output with that of the pages.
func TestPages(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	typed := map[string]int{}
	for _, page := range append(pages, "../../README.md") {
		blocks, err := docpages.Read(".", page)
		if err != nil {
			t.Fatal(err)
		}
		for _, need := range []string{"slurm", "slurm-job", "ssh"} {
			dir := t.TempDir()
			typing, err := docpages.NewTyping(blocks, dir, need)
			if err != nil {
				t.Fatal(err)
			}
			if typing == nil {
				continue
			}
			typed[need] += typing.Commands()
			t.Run(need+"/"+filepath.Base(page), func(t *testing.T) {
				shell := []string{"sh", "-c", typing.Script(dir)}
				var j *job
				switch need {
				case "slurm":
					j = newJob(t, shell...)
				case "slurm-job":
					j = newJob(t, append([]string{"salloc", "-N2", "-n6"}, shell...)...)
				case "ssh": // what is copied to the home directory of a host is not left there
					home := map[string]setup{"node0": {}, "node1": {script: "mount -t tmpfs tmpfs /root"}}
					j = newNetwork(t, []string{"node0", "node1"}, home).newJob(shell...)
				}
				j.cmd.Dir = workingDir(t, blocks)
				code := j.start().wait()
				if err := typing.Result(); err != nil || code != 0 {
					t.Errorf("exit code %d: %v\n%s%s", code, err, j.out(), j.err())
				}
			})
		}
	}
	for _, need := range []string{"slurm", "slurm-job", "ssh"} {
		if typed[need] == 0 {
			t.Errorf("no page has commands that need %q", need)
		}
	}
}

// workingDir makes the directory in which a page is typed, with what its reader has by then: the program of the page, a secret,
// and other programs. It is in the module, so that Go finds the imports of the programs.
func workingDir(t *testing.T, blocks []docpages.Block) string {
	t.Helper()
	data := filepath.Join(checkout, "internal/clustertest/testdata")
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(data, "typed-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	run := func(words ...string) {
		t.Helper()
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", words, err, out)
		}
	}
	for _, b := range blocks {
		if !b.Has("file") {
			continue
		}
		file := filepath.Join(dir, b.Tags["file"])
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if b.Tags["file"] == "main.go" {
			if err := os.WriteFile(file, []byte(b.Text), 0o644); err != nil {
				t.Fatal(err)
			}
			run("go", "build", "-o", "total", ".")
		}
	}
	run("ibrun", "secret", "secret")
	for _, name := range []string{"app", "a", "b"} {
		if err := os.Symlink(filepath.Join(programs, "pi"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
