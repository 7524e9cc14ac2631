package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// module is the path of the module that this program is part of.
const module = "github.com/ibrun/ibrun"

// initTool is the program that a guest runs first.
const initTool = module + "/soft-roce/vm"

// tools are the programs that a guest needs.
var tools = []string{module + "/cmd/ibrun", initTool}

// buildTools builds tools, or some of them, without cgo and copies them into directory to. The built programs stay in the cache
// directory, so that the go command does not link them again if nothing has changed.
func buildTools(ctx context.Context, cache, to string, tools ...string) error {
	bin := filepath.Join(cache, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return err
	}
	locked, err := lock(bin, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer locked.Close()
	cmd := buildCommand(ctx, bin, tools)
	cmd.Env = append(os.Environ(), "GOBIN="+bin, "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	for _, t := range tools {
		name := filepath.Base(t)
		if err := copyFile(filepath.Join(bin, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

// buildCommand returns the go command that builds the tools from the source that this program was built from. With GOBIN set
// `go install` leaves them in the same place as `go build`.
func buildCommand(ctx context.Context, bin string, tools []string) *exec.Cmd {
	info, ok := debug.ReadBuildInfo()
	_, self, _, _ := runtime.Caller(0)
	source := filepath.Dir(self)
	_, statErr := os.Stat(source)
	switch {
	case ok && info.Main.Path == module && info.Main.Sum != "": // started by go run module@version
		args := []string{"install", "-ldflags=-s -w"}
		for _, t := range tools {
			args = append(args, t+"@"+info.Main.Version)
		}
		return exec.CommandContext(ctx, "go", args...)
	case ok && info.Main.Path == module && statErr == nil: // a checkout
		return exec.CommandContext(ctx, "go", append([]string{"-C", source, "build", "-ldflags=-s -w", "-o", bin + "/"}, tools...)...)
	}
	// The main module is another one that requires ours.
	return exec.CommandContext(ctx, "go", append([]string{"build", "-ldflags=-s -w", "-o", bin + "/"}, tools...)...)
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

// checkPrograms returns an error with the programs that are missing on this machine, and the command that installs them.
func checkPrograms(o *options) error {
	programs := [][2]string{{"qemu-system-x86_64", "qemu-system-x86"}, {"go", "golang"}}
	if o.netem != "" {
		programs = append(programs, [2]string{"tc", "iproute2"})
	}
	var missing, packages []string
	for _, p := range programs {
		if _, err := exec.LookPath(p[0]); err != nil {
			missing, packages = append(missing, p[0]), append(packages, p[1])
		}
	}
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("guests are for x86-64, and this is %s", runtime.GOARCH)
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("not found: %s; on Debian:\n\tapt-get install -y --no-install-recommends %s",
		strings.Join(missing, ", "), strings.Join(packages, " "))
}

// moduleRoot returns the closest directory, from dir upwards, that has a go.work or go.mod file. If there is none it returns dir.
func moduleRoot(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		for _, name := range []string{"go.work", "go.mod"} {
			if _, err := os.Stat(filepath.Join(at, name)); !errors.Is(err, fs.ErrNotExist) {
				return at
			}
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}
