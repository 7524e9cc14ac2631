package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// checkout is the top of the repository.
const checkout = "../../.."

// schemas are the schemas by name, with how many values were validated against each.
type schemas struct {
	byName map[string]*jsonschema.Schema
	used   map[string]int
}

// load compiles all schemas. That fails if one is not a schema of the draft that it names.
func load(t *testing.T) *schemas {
	t.Helper()
	files, err := filepath.Glob("../*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no schemas: %v", err)
	}
	s := &schemas{map[string]*jsonschema.Schema{}, map[string]int{}}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, f := range files {
		compiled, err := c.Compile(f)
		if err != nil {
			t.Fatal(err)
		}
		if compiled.DraftVersion != 2020 {
			t.Errorf("%s: draft %d, want 2020-12", f, compiled.DraftVersion)
		}
		s.byName[strings.TrimSuffix(filepath.Base(f), ".json")] = compiled
	}
	return s
}

// validate validates all JSON values in text. It also checks that the schema accepts neither a property more nor one less.
func (s *schemas) validate(t *testing.T, name string, text []byte) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for n := 0; ; n++ {
		var x any
		err := d.Decode(&x)
		if errors.Is(err, io.EOF) && n > 0 {
			return
		}
		if err != nil {
			t.Fatalf("%s: value %d: %v in %.500q", name, n, err, text)
		}
		if err := s.byName[name].Validate(x); err != nil {
			t.Fatalf("%s: %v\n%.1000s", name, err, text)
		}
		s.used[name]++
		if o := object(x); o != nil {
			s.refuse(t, name, x, o)
		}
	}
}

// object returns the object that x is, or its first element.
func object(x any) map[string]any {
	if list, ok := x.([]any); ok && len(list) > 0 {
		x = list[0]
	}
	o, _ := x.(map[string]any)
	return o
}

// refuse checks that x is refused if its object o has a property more, or none at all.
func (s *schemas) refuse(t *testing.T, name string, x any, o map[string]any) {
	t.Helper()
	o["unknown"] = 1
	if s.byName[name].Validate(x) == nil {
		t.Errorf("%s: a property that it does not define is accepted", name)
	}
	clear(o)
	if s.byName[name].Validate(x) == nil {
		t.Errorf("%s: an object without properties is accepted", name)
	}
}

// ibrun builds ibrun and returns a function that runs it. The function returns what ibrun has written to standard output.
func ibrun(t *testing.T) (path string, run func(code int, args ...string) []byte) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(t.TempDir(), "ibrun"))
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", path, "./cmd/ibrun")
	build.Dir = checkout
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path, func(code int, args ...string) []byte {
		t.Helper()
		cmd := exec.Command(path, args...)
		cmd.Dir = checkout
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Fatalf("ibrun %q ended with %d (%v), want %d: %s", args, got, err, code, errs.Bytes())
		}
		return out
	}
}

// messages runs a job and returns its messages.
func messages(t *testing.T, path string, code int, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(path, append([]string{"--log-format", "json"}, args...)...)
	cmd.Dir = checkout
	var errs bytes.Buffer
	cmd.Stderr = &errs
	err := cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("ibrun %q ended with %d (%v), want %d: %s", args, got, err, code, errs.Bytes())
	}
	return errs.Bytes()
}

func TestCommands(t *testing.T) {
	s := load(t)
	path, run := ibrun(t)
	s.validate(t, "topo", run(0, "topo", "--json"))
	s.validate(t, "explain", run(0, "explain", "--json", "8,1M"))
	s.validate(t, "explain", run(0, "explain", "--json", "allreduce", "1M"))
	s.validate(t, "bench", run(0, "bench", "latency", "--json", "--percentiles", "--validate", "--size", "8", "--iterations", "20"))
	s.validate(t, "bench", run(0, "bench", "allreduce", "--json", "--size", "8,64", "--iterations", "20"))
	s.validate(t, "bench", run(0, "bench", "hints", "--json", "--rounds", "1", "--time", "1ms"))
	s.validate(t, "bench", run(0, "bench", "overhead", "--json", "--size", "8", "--rounds", "7", "--time", "1ms"))
	s.validate(t, "simulate", run(0, "bench", "simulate", "allreduce", "--json", "--ranks", "8", "--sizes", "8,1M"))
	s.validate(t, "simulate", run(0, "bench", "simulate", "barrier", "--json", "--compare", "2", "--sizes", "8", "--time", "1ms"))
	dir := t.TempDir()
	ok, failed, table := filepath.Join(dir, "ok.json"), filepath.Join(dir, "failed.json"), filepath.Join(dir, "table.json")
	run(0, "-n", "2", "--report="+ok, "./examples/ring")
	s.validateFile(t, "report", ok)
	run(3, "-n", "2", "--report="+failed, "sh", "-c", "echo last words >&2; exit 3")
	s.validateFile(t, "report", failed)
	s.validate(t, "log", messages(t, path, 0, "-v", "-n", "2", "--report=-", "./examples/ring"))
	s.validate(t, "log", messages(t, path, 3, "-n", "2", "sh", "-c", "exit 3"))
	s.validate(t, "log", messages(t, path, 137, "-n", "2", "sh", "-c", "kill -9 $$"))
	s.validate(t, "log", messages(t, path, 124, "-n", "1", "--timeout", "0.1", "--metrics", ":0", "sleep", "1000"))
	s.validate(t, "log", messages(t, path, 127, "no-such-program"))
	s.validate(t, "log", messages(t, path, 2, "--no-such-flag"))
	run(0, "bench", "tune", "bcast", "--output", table, "--rounds", "1", "--time", "1ms", "--sizes", "8", "--ranks", "2")
	s.validateFile(t, "tune", table)
	doctor := exec.Command(path, "doctor", "--json") // its exit code is 1 if jobs cannot work here
	text, err := doctor.Output()
	if code := doctor.ProcessState.ExitCode(); code != 0 && code != 1 {
		t.Fatalf("ibrun doctor: %v", err)
	}
	s.validate(t, "doctor", text)
	s.checkRunning(t, path, run)
	for name := range s.byName {
		if s.used[name] == 0 {
			t.Errorf("no value was validated against %s.json", name)
		}
	}
}

// validateFile validates a file.
func (s *schemas) validateFile(t *testing.T, name, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s.validate(t, name, text)
}

// checkRunning validates what is printed about a job that runs.
func (s *schemas) checkRunning(t *testing.T, path string, run func(code int, args ...string) []byte) {
	t.Helper()
	job := exec.Command(path, "-n", "2", path, "bench", "barrier", "--time", "1h")
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = job.Process.Signal(os.Interrupt)
		_ = job.Wait() // it was interrupted
	})
	pid := strconv.Itoa(job.Process.Pid)
	for !bytes.Contains(run(0, "ps", "--json"), []byte(`"pid":`+pid+",")) {
		time.Sleep(10 * time.Millisecond)
	}
	s.validate(t, "ps", run(0, "ps", "--json"))
	for !bytes.Contains(run(0, "top", "--once", "--json", "--interval", "100ms", pid), []byte(`"state":"running"`)) {
		time.Sleep(10 * time.Millisecond)
	}
	s.validate(t, "top", run(0, "top", "--once", "--json", "--interval", "100ms", pid))
	s.validate(t, "hang", run(0, "hang", "--json", pid))
}
