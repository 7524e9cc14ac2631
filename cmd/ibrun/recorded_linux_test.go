package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/tracemerge/tracetest"
	"github.com/ibrun/ibrun/mpi"
)

// talk is a rank that sends fifty messages of several sizes to its neighbour, and computes for some time. With "killed" the
// last rank then kills itself.
func talk(args []string) error {
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		return err
	}
	w := p.World()
	right, left := (w.Rank()+1)%w.Size(), (w.Rank()+w.Size()-1)%w.Size()
	for i := range 50 {
		b := make([]byte, 8<<(i%5*4)) // 8 bytes to 512 KiB
		r, err := mpi.Irecv(w, make([]byte, len(b)), left, i)
		if err != nil {
			return err
		}
		if err := errors.Join(mpi.Send(w, b, right, i), mpi.Waitall([]mpi.Request{r}, nil)); err != nil {
			return err
		}
	}
	wait, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	compute(wait)
	if len(args) > 1 && w.Rank() == w.Size()-1 {
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return p.Finalize()
}

// whisper is a rank that sends a message to all others and receives theirs.
func whisper(message string) error {
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		return err
	}
	w := p.World()
	all := make([]byte, w.Size()*len(message))
	if err := mpi.Allgather(w, all, []byte(message)); err != nil {
		return err
	}
	if string(all) != strings.Repeat(message, w.Size()) {
		return fmt.Errorf("received %q", all)
	}
	return p.Finalize()
}

// compute uses that much processor time.
func compute(least time.Duration) (sum int) {
	for began := processorTime(); processorTime()-began < least; {
		for i := range 1 << 20 {
			sum += i * sum
		}
	}
	return sum
}

func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano())
}

// checkTrace checks that a trace contains calls of each rank, and at least fifty arrows from each rank to the next.
func checkTrace(t *testing.T, file string, ranks int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := tracetest.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	next := map[int]int{}
	for id, a := range tl.Arrows {
		from, to := a.From.Pid, a.To.Pid
		if fmt.Sprintf("%v %v", a.From.Args["peer"], a.To.Args["peer"]) != fmt.Sprintf("%d %d", to, from) {
			t.Errorf("arrow %d: %+v", id, a)
		}
		if to == (from+1)%ranks {
			next[from]++
		}
	}
	for rank := range ranks {
		if len(tl.Slices[rank]) < 150 || next[rank] < 50 {
			t.Errorf("rank %d: %d calls, %d arrows to the next", rank, len(tl.Slices[rank]), next[rank])
		}
	}
}

// cpuByRank reads a profile and returns the time that each rank spent in compute, and how many goroutines it had.
func cpuByRank(t *testing.T, file string) (cpu, goroutines map[string]int64) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	cpu, goroutines = map[string]int64{}, map[string]int64{}
	for _, s := range p.Sample {
		if len(s.Label["rank"]) != 1 || len(s.Label["node"]) != 1 {
			t.Fatalf("labels %v", s.Label)
		}
		rank := s.Label["rank"][0]
		goroutines[rank] += s.Value[2]
		for _, at := range s.Location {
			for _, l := range at.Line {
				if strings.HasSuffix(l.Function.Name, ".compute") {
					cpu[rank] += s.Value[1]
				}
			}
		}
	}
	return cpu, goroutines
}

func checkProfile(t *testing.T, file string, ranks int) {
	t.Helper()
	cpu, goroutines := cpuByRank(t, file)
	for rank := range ranks {
		if name := fmt.Sprint(rank); cpu[name] == 0 || goroutines[name] == 0 {
			t.Errorf("rank %d: %d ns in compute, %d goroutines", rank, cpu[name], goroutines[name])
		}
	}
}

// TestRecorded: profiles and traces of all ranks are written when the job has ended, on one node, and on node 0 of several.
func TestRecorded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	trace, prof := filepath.Join(dir, "t.json"), filepath.Join(dir, "p")
	args := []string{"-n", "3", "--trace", trace, "--pprof", prof, "rank", "talk", "100ms"}
	p := startJob(t, 0, args...)
	p.wantCode(0, "go tool pprof "+prof)
	checkTrace(t, trace, 3)
	checkProfile(t, prof, 3)

	if err := errors.Join(os.Remove(trace), os.Remove(prof)); err != nil {
		t.Fatal(err)
	}
	ns := newNodes(t, 2).start(0, args...)
	ns.wantCode(0, "")
	checkTrace(t, trace, 3)
	checkProfile(t, prof, 3)
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("%v, %v", files, err)
	}
}

// TestProfileCommands: the commands in docs/profiles.md show samples in the profile of a job, even for rank 3.
func TestProfileCommands(t *testing.T) {
	t.Parallel()
	if os.Getenv("IBRUN_DOCS") == "" {
		t.Skip("`make readme` runs it")
	}
	doc, err := os.ReadFile("../../docs/profiles.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, typed := t.TempDir(), 0
	p := startJob(t, 0, "-n", "4", "--pprof", filepath.Join(dir, "job.pb.gz"), "rank", "talk", "100ms")
	p.wantCode(0, "")
	for line := range strings.Lines(string(doc)) {
		command, found := strings.CutPrefix(line, "go tool pprof -")
		if !found || strings.Contains(command, "-http") {
			continue
		}
		cmd := exec.Command("sh", "-c", "go tool pprof -"+command)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "talk") && !strings.Contains(string(out), "rank: Total") ||
			strings.Contains(string(out), "no samples") {
			t.Errorf("%s: %v\n%s", strings.TrimSpace(line), err, out)
		}
		typed++
	}
	if typed < 3 {
		t.Errorf("only %d commands were found", typed)
	}
}

// TestRecordedAfterKill: a rank that is killed leaves its complete trace, and the part of its profile that was finished.
func TestRecordedAfterKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	trace, prof := filepath.Join(dir, "t.json"), filepath.Join(dir, "p")
	for cpu := time.Second; ; cpu *= 2 { // on a busy machine the first part of the profile is finished late
		p := startJob(t, 0, "-n", "2", "--trace", trace, "--pprof", prof, "rank", "talk", cpu.String(), "killed")
		p.wantCode(128+9, "rank 1 on")
		checkTrace(t, trace, 2)
		of, goroutines := cpuByRank(t, prof)
		if of["1"] > 0 && goroutines["1"] > 0 {
			return
		}
		if cpu > 5*time.Second {
			t.Fatalf("nothing of rank 1: %v, %v", of, goroutines)
		}
	}
}

// TestRecordedNothing: a file that cannot be written is reported before the job starts, and programs without package mpi record
// nothing.
func TestRecordedNothing(t *testing.T) {
	t.Parallel()
	p := startJob(t, 0, "-n", "1", "--trace", "/nowhere/t.json", "rank", "exit", "0")
	p.wantCode(2, "write /nowhere/t.json: no such file or directory")
	file := filepath.Join(t.TempDir(), "p")
	p = startJob(t, 0, "-n", "2", "--pprof", file, "rank", "exit", "0")
	p.wantCode(0, "no profile of this job: no rank wrote a profile")
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("there is a file: %v", err)
	}
}
