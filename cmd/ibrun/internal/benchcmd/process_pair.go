package benchcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/bench/perftest"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/benchreference"
	"github.com/ibrun/ibrun/internal/freeport"
)

// processPair is a server process and a client process that measure together.
type processPair struct {
	server, client []string // command lines
	environ        []string
	bound          bool                            // each is bound to a core of its own, if there are two
	piped          bool                            // pipes connect them, as benchreference.ReadFD and WriteFD
	ready          func(ctx context.Context) error // blocks until the client can be started
}

// run runs both processes and returns the output of the client. If one fails, the other is terminated.
func (d processPair) run(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, launchTimeout)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	server, client := d.newProcess(ctx, d.server), d.newProcess(ctx, d.client)
	if d.piped {
		files, err := connectPipes(server.Cmd, client.Cmd)
		if err != nil {
			return "", err
		}
		defer func() {
			for _, f := range files {
				f.Close()
			}
		}()
	}
	on, err := d.processors()
	if err != nil {
		return "", err
	}
	if err := server.start(on[0]); err != nil {
		return "", err
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Wait(); err != nil {
			fail(server.failure(err))
		}
	}()
	if err = d.ready(ctx); err == nil {
		err = client.start(on[1])
	}
	if err != nil {
		fail(err)
	} else if err := client.Wait(); err != nil {
		fail(client.failure(err))
	}
	<-served
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	return client.out.String(), nil
}

// pairProcess is one process of a pair.
type pairProcess struct {
	*exec.Cmd
	out, err bytes.Buffer
}

func (d processPair) newProcess(ctx context.Context, words []string) *pairProcess {
	h := &pairProcess{Cmd: exec.CommandContext(ctx, words[0], words[1:]...)}
	h.Env, h.Stdout, h.Stderr = d.environ, &h.out, &h.err
	h.Cancel = func() error { return h.Process.Signal(syscall.SIGTERM) }
	h.WaitDelay = shutdownGrace
	return h
}

// processors returns the processors of the server and of the client; an empty list means any.
func (d processPair) processors() (on [2][]int, err error) {
	if !d.bound {
		return on, nil
	}
	allowed, err := hw.Affinity()
	if err != nil {
		return on, err
	}
	top, err := hw.Read(os.DirFS("/"), hw.OnlyPUs)
	if err != nil {
		return on, err
	}
	pus := slices.DeleteFunc(top.PUs, func(p hw.PU) bool { return !slices.Contains(allowed, p.ID) })
	other := slices.IndexFunc(pus, func(p hw.PU) bool { return p.Core != pus[0].Core })
	if other < 0 {
		return on, nil
	}
	return [2][]int{{pus[0].ID}, {pus[other].ID}}, nil
}

// start starts the process, bound to these processors.
func (h *pairProcess) start(pus []int) error {
	if len(pus) == 0 {
		return h.Start()
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock it: the thread stays bound, and the runtime ends it with the goroutine
		err := hw.Bind(pus)
		if err == nil {
			err = h.Start()
		}
		started <- err
	}()
	return <-started
}

func (h *pairProcess) failure(err error) error {
	return fmt.Errorf("%s: %w\n%s%s", quoteCommand(h.Args), err, tail(h.out.Bytes()), tail(h.err.Bytes()))
}

// connectPipes connects two commands with pipes. It returns the ends that this process must close.
func connectPipes(a, b *exec.Cmd) ([]*os.File, error) {
	r1, w1, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	r2, w2, err := os.Pipe()
	if err != nil {
		r1.Close()
		w1.Close()
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	a.ExtraFiles, b.ExtraFiles = []*os.File{r1, w2}, []*os.File{r2, w1}
	return []*os.File{r1, w1, r2, w2}, nil
}

// measureVerbs runs a test with package verbs in two processes of the reference program, and returns
// its figure.
func (c *command) measureVerbs(ctx context.Context, program string, t perftest.Test, log bool) (figure float64, err error) {
	words := func(r perftest.Role) []string { return append([]string{program}, benchreference.VerbsWords(r, t)...) }
	d := processPair{server: words(perftest.Server), client: words(perftest.Client), environ: c.cleanEnv(), bound: true, piped: true,
		ready: func(context.Context) error { return nil }}
	if log {
		c.logf("%s", quoteCommand(d.client))
	}
	out, err := d.run(ctx)
	if err == nil {
		err = json.Unmarshal([]byte(out), &figure)
	}
	return figure, err
}

// perftestRunner runs one program of perftest with one message size.
type perftestRunner struct {
	device     string
	op         perftest.Op
	size       int
	iterations int
	settings   perftest.Settings // chosen by the last run
}

// run measures with perftest. It repeats a run whose clock failed.
func (p *perftestRunner) run(ctx context.Context, c *command, log bool) (figure float64, err error) {
	const tries = 5
	for range tries {
		if figure, err = p.runOnce(ctx, c, log); !errors.Is(err, perftest.ErrClock) {
			break
		}
	}
	return figure, err
}

func (p *perftestRunner) runOnce(ctx context.Context, c *command, log bool) (float64, error) {
	port, err := freeport.TCP()
	if err != nil {
		return 0, err
	}
	// -F: ignore changes of the CPU frequency.
	server := []string{p.op.Program(), "-F", "-d", p.device, "-s", strconv.Itoa(p.size), "-n", strconv.Itoa(p.iterations),
		"-p", strconv.Itoa(port)}
	d := processPair{server: server, client: append(server[:len(server):len(server)], "127.0.0.1"), environ: c.cleanEnv(),
		bound: true,
		ready: func(ctx context.Context) error { return untilListening(ctx, port) }}
	if log {
		c.logf("%s", quoteCommand(d.client))
	}
	out, err := d.run(ctx)
	if err != nil {
		return 0, err
	}
	r, err := p.op.ParseReport(out)
	if err != nil {
		return 0, fmt.Errorf("%s: parsing its output: %w\n%s", quoteCommand(d.client), err, tail([]byte(out)))
	}
	if r.Size != p.size || r.Iterations != p.iterations {
		return 0, fmt.Errorf("%s: it measured %d iterations of %d bytes", quoteCommand(d.client), r.Iterations, r.Size)
	}
	p.settings = r.Settings
	return r.Figure, nil
}

// untilListening blocks until a process listens on a port. It must not connect, because the server accepts only one connection.
func untilListening(ctx context.Context, port int) error {
	const pause = 2 * time.Millisecond
	for ctx.Err() == nil {
		for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			table, err := os.ReadFile(name)
			if err != nil && !os.IsNotExist(err) {
				return fmt.Errorf("waiting for a server: %w", err)
			}
			if listens(string(table), port) {
				return nil
			}
		}
		time.Sleep(pause)
	}
	return context.Cause(ctx)
}

// listens reports whether a table such as /proc/net/tcp has a listening socket with this port: "0: 00000000:4855 00000000:0000 0A
// ...".
func listens(table string, port int) bool {
	const listen = "0A"
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) > 3 && f[3] == listen && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
			return true
		}
	}
	return false
}
