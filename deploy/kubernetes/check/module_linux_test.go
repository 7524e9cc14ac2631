package check

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestModule executes the commands of Containerfile.module in a module that has ibrun as a tool. What it copies into the image are
// two static programs and an empty /tmp, and the ibrun starts the other program.
func TestModule(t *testing.T) {
	checkout, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	src, image := t.TempDir(), filepath.Join(t.TempDir(), "image")
	for name, from := range map[string]string{"main.go": "examples/tutorial/hello/main.go", "go.sum": "go.sum"} {
		text, err := os.ReadFile(filepath.Join(checkout, from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(src, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("../Containerfile.module")
	if err != nil {
		t.Fatal(err)
	}
	script := "go mod init example.com/job\ngo mod edit -require github.com/ibrun/ibrun@v0.0.0 " +
		"-replace 'github.com/ibrun/ibrun=" + checkout + "' -tool github.com/ibrun/ibrun/cmd/ibrun\n"
	for _, run := range regexp.MustCompile(`(?m)^RUN (.*)$`).FindAllStringSubmatch(string(text), -1) {
		script += strings.ReplaceAll(run[1], "/image", "$IMAGE") + "\n"
	}
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir, cmd.Env = src, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GOPROXY=off", "IMAGE="+image)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	if info, err := os.Stat(filepath.Join(image, "tmp")); err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("/tmp: %v, %v", info, err)
	}
	for _, program := range []string{"ibrun", "job"} {
		f, err := elf.Open(filepath.Join(image, program))
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
			t.Errorf("%s needs a loader", program)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	out, err := exec.Command(filepath.Join(image, "ibrun"), "-n", "2", filepath.Join(image, "job")).CombinedOutput()
	if err != nil || strings.Count(string(out), "hello from rank") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
}
