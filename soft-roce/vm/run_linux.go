package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ibrun/ibrun/soft-roce/vm/internal/debian"
	"github.com/ibrun/ibrun/soft-roce/vm/internal/gotest"
	"github.com/ibrun/ibrun/soft-roce/vm/internal/guest"
	"github.com/ibrun/ibrun/soft-roce/vm/internal/mux"
)

// streams are the standard streams of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// run builds, boots and runs, and returns the command's exit code.
func run(ctx context.Context, o *options) (code int, err error) {
	began := time.Now()
	logf := func(format string, args ...any) {
		if o.verbose {
			fmt.Fprintf(os.Stderr, "vm: %5.1fs %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
		}
	}
	if err := checkPrograms(o); err != nil {
		return codeFailed, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return codeFailed, fmt.Errorf("find the cache directory for the guest's kernel: %w", err)
	}
	cache = filepath.Join(cache, "ibrun", "vm")
	work, remove, err := newWorkDir(cache)
	if err != nil {
		return codeFailed, err
	}
	defer remove()
	j, err := prepare(ctx, o, cache, work)
	switch {
	case errors.Is(err, gotest.ErrUse):
		return codeUse, err
	case errors.Is(err, gotest.ErrBuild):
		return codeTests, err
	case err != nil:
		return codeFailed, err
	}
	logf("built")
	c := &cluster{kernel: j.kernel, configs: j.configs(o.nodes), work: work}
	defer c.kill()
	if err := c.boot(ctx, filepath.Join(cache, "accel"), logf); err != nil {
		return codeFailed, err
	}
	logf("%d up, kernel %s", o.nodes, j.kernel.Release)
	if err := c.applyNetem(ctx, o.netem, j); err != nil {
		return codeFailed, err
	}
	code, err = j.run(ctx, c.nodes[0])
	logf("%s has ended", o.command[0])
	return code, err
}

// job is the command for the guest, and the files that it needs.
type job struct {
	command  []string
	tests    *gotest.Command // nil unless the command is go test
	packages []gotest.Package
	kernel   *debian.Installed
	dir      string   // working directory
	bin      string   // where the tools are
	hostDirs []string // that stay visible in the guest
	addrs    []string
}

// prepare builds everything that the guest needs.
func prepare(ctx context.Context, o *options, cache, work string) (*job, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	j := &job{command: o.command, dir: dir, bin: filepath.Join(work, "bin"), hostDirs: []string{work, moduleRoot(dir)}}
	for i := range o.nodes {
		j.addrs = append(j.addrs, fmt.Sprintf("10.77.0.%d", i+1))
	}
	if err := os.Mkdir(j.bin, 0o755); err != nil {
		return nil, err
	}
	if o.command[0] == "go" && len(o.command) > 1 && o.command[1] == "test" {
		if j.tests, err = gotest.Parse(o.command[2:]); err != nil {
			return nil, err
		}
	}
	var errTools, errKernel error
	done := make(chan struct{})
	go func() {
		defer close(done)
		j.kernel, errKernel = debian.Kernel(ctx, cache, modules)
		errTools = buildTools(ctx, cache, j.bin, tools...)
	}()
	if j.tests != nil {
		j.packages, err = j.tests.Build(ctx, work, os.Stderr)
		for _, p := range j.packages {
			j.hostDirs = append(j.hostDirs, p.Dir)
		}
	}
	<-done
	return j, errors.Join(err, errKernel, errTools)
}

// configs returns the configuration of each node.
func (j *job) configs(nodes int) []guest.Config {
	slices.Sort(j.hostDirs) // a directory before its subdirectories
	var configs []guest.Config
	for i := range nodes {
		configs = append(configs, guest.Config{Node: i, Addrs: j.addrs, Bin: j.bin, Keep: guest.Hidden(slices.Compact(j.hostDirs))})
	}
	return configs
}

// environment returns the environment of programs that the host starts on a node.
func (j *job) environment(node int) []string {
	replaced := map[string]string{
		guest.NodeVariable:  strconv.Itoa(node),
		guest.NodesVariable: strconv.Itoa(len(j.addrs)),
		guest.AddrsVariable: strings.Join(j.addrs, ","),
		guest.LiveVariable:  strconv.Itoa(len(j.addrs)),
		"PATH":              j.bin + ":" + os.Getenv("PATH"),
		"TMPDIR":            "/tmp", // the directory of the host may not exist there
		"XDG_CACHE_HOME":    "/tmp/.cache",
	}
	var env []string
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); replaced[name] == "" {
			env = append(env, v)
		}
	}
	for name, value := range replaced {
		env = append(env, name+"="+value)
	}
	return env
}

// run runs the command, or the tests of one package after the other, and returns the exit code.
func (j *job) run(ctx context.Context, n *node) (int, error) {
	c := mux.Command{Node: n.number, Args: j.command, Dir: j.dir, Env: j.environment(n.number)}
	if j.tests == nil {
		return n.run(ctx, c, streams{os.Stdin, os.Stdout, os.Stderr})
	}
	code := 0
	for _, p := range j.packages {
		if p.Binary == "" {
			fmt.Printf("?   \t%s\t[no test files]\n", p.ImportPath)
			continue
		}
		c.Args, c.Dir = append([]string{p.Binary}, j.tests.Flags...), p.Dir
		began := time.Now()
		got, err := n.run(ctx, c, streams{nil, os.Stdout, os.Stderr})
		if err != nil {
			return got, fmt.Errorf("%s: %w", p.ImportPath, err)
		}
		result := "ok  "
		if got != 0 {
			result, code = "FAIL", codeTests
			fmt.Printf("exit status %d\n", got)
		}
		fmt.Printf("%s\t%s\t%.3fs\n", result, p.ImportPath, time.Since(began).Seconds())
	}
	if code != 0 {
		fmt.Println("FAIL")
	}
	return code, nil
}

// applyNetem disturbs the network in both directions.
func (c *cluster) applyNetem(ctx context.Context, netem string, j *job) error {
	if netem == "" {
		return nil
	}
	args := append(strings.Fields("tc qdisc add dev "+guest.Netdev+" root netem"), strings.Fields(netem)...)
	for _, n := range c.nodes {
		var output strings.Builder
		command := mux.Command{Node: n.number, Args: args, Dir: "/", Env: j.environment(n.number)}
		code, err := n.run(ctx, command, streams{nil, &output, &output})
		if err == nil && code != 0 {
			err = fmt.Errorf("exit code %d: %s", code, strings.TrimSpace(output.String()))
		}
		if err != nil {
			return fmt.Errorf("-netem %q on node %d: %w", netem, n.number, err)
		}
	}
	return nil
}
