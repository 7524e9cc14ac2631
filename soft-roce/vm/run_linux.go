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

// streams are those of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// run builds, boots and runs, and returns the command's exit code.
func run(ctx context.Context, o *options) (code int, err error) {
	began := time.Now()
	say := func(format string, args ...any) {
		if o.verbose {
			fmt.Fprintf(os.Stderr, "vm: %5.1fs %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
		}
	}
	if err := need(o); err != nil {
		return codeFailed, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return codeFailed, fmt.Errorf("find a place for the guest's kernel: %w", err)
	}
	cache = filepath.Join(cache, "ibrun", "vm")
	work, remove, err := newWork(cache)
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
	say("built")
	c := &cluster{kernel: j.kernel, configs: j.configs(o.nodes), work: work}
	defer c.kill()
	if err := c.boot(ctx, filepath.Join(cache, "accel"), say); err != nil {
		return codeFailed, err
	}
	say("%d up, kernel %s", o.nodes, j.kernel.Release)
	if err := c.spoil(ctx, o.netem, j); err != nil {
		return codeFailed, err
	}
	code, err = j.do(ctx, c.nodes[0])
	say("%s has ended", o.command[0])
	return code, err
}

// job is what is to be done in the guest.
type job struct {
	command  []string
	tests    *gotest.Command // nil where the command is no go test
	packages []gotest.Package
	kernel   *debian.Installed
	dir      string // working directory
	bin      string // where the tools are
	keep     []string
	addrs    []string
}

// prepare builds everything that the guest needs.
func prepare(ctx context.Context, o *options, cache, work string) (*job, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	j := &job{command: o.command, dir: dir, bin: filepath.Join(work, "bin"), keep: []string{work, moduleRoot(dir)}}
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
		errTools = buildTools(ctx, cache, j.bin)
	}()
	if j.tests != nil {
		j.packages, err = j.tests.Build(ctx, work, os.Stderr)
		for _, p := range j.packages {
			j.keep = append(j.keep, p.Dir)
		}
	}
	<-done
	return j, errors.Join(err, errKernel, errTools)
}

// configs returns the configuration of each node.
func (j *job) configs(nodes int) []guest.Config {
	slices.Sort(j.keep) // a directory comes before what is in it
	var configs []guest.Config
	for i := range nodes {
		configs = append(configs, guest.Config{Node: i, Addrs: j.addrs, Bin: j.bin, Keep: guest.Hidden(slices.Compact(j.keep))})
	}
	return configs
}

// environment is that of every program which the host starts on a node.
func (j *job) environment(node int) []string {
	replaced := map[string]string{
		guest.NodeVariable:  strconv.Itoa(node),
		guest.NodesVariable: strconv.Itoa(len(j.addrs)),
		guest.AddrsVariable: strings.Join(j.addrs, ","),
		guest.LiveVariable:  strconv.Itoa(len(j.addrs)),
		"PATH":              j.bin + ":" + os.Getenv("PATH"),
		"TMPDIR":            "/tmp", // the host's may not be there
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

// do runs the command, or the tests one package after the other.
func (j *job) do(ctx context.Context, n *node) (int, error) {
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
		verdict := "ok  "
		if got != 0 {
			verdict, code = "FAIL", codeTests
			fmt.Printf("exit status %d\n", got)
		}
		fmt.Printf("%s\t%s\t%.3fs\n", verdict, p.ImportPath, time.Since(began).Seconds())
	}
	if code != 0 {
		fmt.Println("FAIL")
	}
	return code, nil
}

// spoil makes the wire worse, in both directions.
func (c *cluster) spoil(ctx context.Context, netem string, j *job) error {
	if netem == "" {
		return nil
	}
	args := append(strings.Fields("tc qdisc add dev "+guest.Netdev+" root netem"), strings.Fields(netem)...)
	for _, n := range c.nodes {
		var said strings.Builder
		command := mux.Command{Node: n.number, Args: args, Dir: "/", Env: j.environment(n.number)}
		code, err := n.run(ctx, command, streams{nil, &said, &said})
		if err == nil && code != 0 {
			err = fmt.Errorf("exit code %d: %s", code, strings.TrimSpace(said.String()))
		}
		if err != nil {
			return fmt.Errorf("-netem %q on node %d: %w", netem, n.number, err)
		}
	}
	return nil
}
