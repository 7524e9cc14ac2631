package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/report"
	"github.com/ibrun/ibrun/internal/needtest"
)

// readReport reads a report file of a job.
func readReport(t *testing.T, name string) *report.Report {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r := new(report.Report)
	if err := json.Unmarshal(text, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReport: the report contains ranks that were killed, and is written even if the job has failed.
func TestReport(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report.json")
	p := startJob(t, 3, "-n", "3", "-x", "TOKEN=secret", "-x", "GOGC=70", "--report="+file, "rank", "record")
	p.signal(p.pids[1], syscall.SIGKILL)
	p.wantCode(137, "was killed by signal 9")
	if printed := p.stderrText(); !strings.Contains(printed, "ranks 0-2 (3) ended without Finalize") || strings.Contains(printed,
		"secret") {
		t.Errorf("it printed\n%s", printed)
	}
	r := readReport(t, file)
	if r.Job.Code != 137 || r.Job.Calls != 300 || len(r.Ranks) != 3 || len(r.Job.Failure) == 0 || r.Job.Recorded != 3 {
		t.Errorf("got %+v", r)
	}
	if v := r.Nodes[0].Environment; !strings.Contains(strings.Join(words(v), " "), "GOGC=70") {
		t.Errorf("the environment is %v", v)
	}
}

func words(all []report.Variable) (list []string) {
	for _, v := range all {
		list = append(list, v.Name+"="+v.Value)
	}
	return list
}

// reported returns the names of the report files that ibrun has printed.
func (p *process) reported() []string {
	p.t.Helper()
	for line := range strings.Lines(p.stderrText()) {
		if names, found := strings.CutPrefix(line, "ibrun: report: "); found {
			return strings.Split(strings.TrimSpace(names), ", ")
		}
	}
	return nil
}

// TestReportUnnamed: a report without a name is printed and written to two files in the working directory, whose paths are
// printed. With - it is only printed.
func TestReportUnnamed(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--report", "--report=-"} {
		cmd := exec.Command("ibrun", "-n", "2", flag, "rank", "exit", "0")
		cmd.Dir = t.TempDir()
		p := startCommand(t, 0, cmd)
		p.wantCode(0, "ranks 0-1 (2) recorded nothing")
		var want []string
		files, err := os.ReadDir(cmd.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			want = append(want, filepath.Join(cmd.Dir, f.Name()))
		}
		if got := p.reported(); !slices.Equal(got, want) {
			t.Errorf("%s: printed are %q, but the files are %q", flag, got, want)
		}
		if flag == "--report=-" {
			if len(want) > 0 {
				t.Errorf("%s writes %q", flag, want)
			}
			continue
		}
		if len(want) != 2 || !strings.HasPrefix(filepath.Base(want[0]), "ibrun-report-") || !strings.HasSuffix(want[0], ".html") {
			t.Fatalf("%s writes %q", flag, want)
		}
		if r := readReport(t, want[1]); !strings.Contains(want[0], r.Job.ID) || len(r.Ranks) != 2 {
			t.Errorf("the report of %s is of %+v", want[0], r.Job)
		}
	}
}

// TestReportNowhere: if a report cannot be written, ibrun prints that once, and nothing else changes.
func TestReportNowhere(t *testing.T) {
	t.Parallel()
	p := startJob(t, 0, "-n", "2", "--report="+t.TempDir()+"/none/report.json", "rank", "exit", "0")
	p.wantCode(0, "/none/report.json")
	printed := p.stderrText()
	if strings.Count(printed, "/none/report.json: ") != 1 || !strings.Contains(printed, "ranks 0-1 (2) recorded nothing") {
		t.Errorf("it printed\n%s", printed)
	}
}

// TestReportOfNodes: node 0 reports about all nodes, and only node 0 needs the flag.
func TestReportOfNodes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report.json")
	ns := newNodes(t, 2)
	for k, flags := range [][]string{{"--report=" + file}, nil} {
		ns.list[k] = startCommand(t, 0, ns.command(k, append(flags, "-n", "4", "rank", "record")...))
	}
	for _, p := range ns.list {
		p.ready(2)
	}
	ns.list[1].signal(ns.list[1].pids[0], syscall.SIGKILL)
	ns.wantCode(137, "was killed by signal 9")
	r := readReport(t, file)
	if len(r.Nodes) != 2 || r.Nodes[1].Name != "n1" || r.Nodes[1].Kernel == "" || len(r.Nodes[1].Ranks) != 2 {
		t.Fatalf("the nodes are %+v", r.Nodes)
	}
	for _, rank := range r.Ranks {
		if rank.Calls != 100 || rank.State != report.Unfinished || rank.Node != rank.Rank/2 {
			t.Errorf("rank %d is %+v", rank.Rank, rank)
		}
	}
}

// TestReportFullDisk: if the disk is full, there is no report, but the job and its exit code are not affected. No incomplete
// file remains.
func TestReportFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=4k"); err != nil {
		needtest.Missing(t, "root with the right to mount a small disk: %v", err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	if err := os.WriteFile(dir+"/full", make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--report", "--report=a.html", "--report=b.json,a.html"} {
		cmd := exec.Command("ibrun", "-n", "1", flag, "rank", "exit", "3")
		cmd.Dir = dir
		p := startCommand(t, 0, cmd)
		p.wantCode(3, "no space left on device")
		printed := p.stderrText()
		if strings.Count(printed, "no space left") != 1 || strings.Count(printed, "no report ") != 1 || p.reported() != nil {
			t.Errorf("%s: it printed\n%s", flag, printed)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
			t.Errorf("%s: %v remains, %v", flag, files, err)
		}
	}
}
