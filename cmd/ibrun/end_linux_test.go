package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
)

// end makes the last rank end in some way, while the others wait for it in a Barrier.
func end(ctx context.Context, p *mpi.Process, how string) error {
	w := p.World()
	switch last := w.Rank() == w.Size()-1; {
	case how == "signal-in-finalize" && last:
		go func() {
			<-ctx.Done() // this function has returned
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		}()
		return nil
	case how == "signal-in-finalize":
		select {}
	case !last:
		return w.Barrier()
	}
	how, deep := strings.CutPrefix(how, "deep-")
	if deep {
		return calls(200, func() error { return end(ctx, p, how) })
	}
	switch how {
	case "panic":
		panic("out of luck")
	case "index":
		_ = []byte(how)[10*w.Size()]
	case "goexit":
		runtime.Goexit()
	case "goexit-after-panic":
		defer runtime.Goexit()
		panic("lost")
	case "panic-after-goexit":
		defer func() { panic("out of luck") }()
		runtime.Goexit()
	case "error":
		return errors.New("out of luck")
	case "exit":
		os.Exit(0)
	case "unused-context":
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		select {}
	case "interrupt", "terminate", "hang-up", "later-signal":
		return endBySignal(ctx, how)
	}
	return w.Barrier()
}

// calls calls f at so many frames from here.
func calls(n int, f func() error) error {
	if n == 0 {
		return f()
	}
	return calls(n-1, f)
}

// endBySignal uses a context in some way, and returns when it has ended because of a signal. After two signals at once the
// process still runs; a later one ends it.
func endBySignal(ctx context.Context, how string) error {
	sig := map[string]syscall.Signal{"interrupt": syscall.SIGINT, "hang-up": syscall.SIGHUP}[how]
	switch how {
	case "interrupt":
		if ctx.Err() != nil {
			return errors.New("the context has ended")
		}
	case "hang-up":
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
	default:
		ctx.Done()
		sig = syscall.SIGTERM
	}
	for range 2 {
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			return err
		}
	}
	<-ctx.Done()
	for i := 1; how == "later-signal"; i++ {
		if runtime.Gosched(); i%1_000_000 == 0 { // rarely: many signals at once crash a program of Go
			_ = syscall.Kill(os.Getpid(), sig)
		}
	}
	return fmt.Errorf("ended: %w", ctx.Err())
}

// endBy calls end in mpi.Main, or in a function with deferred calls.
func endBy(words, how string) error {
	if words == "end-deferred" {
		return endDeferred(how)
	}
	mpi.Main(func(ctx context.Context, p *mpi.Process) error { return end(ctx, p, how) })
	fmt.Println("Main has returned")
	return nil
}

// endDeferred is end with Init and a deferred Finalize: directly, in a function, or in one that has recovered the panic; or
// with a deferred Session.Close and Leave.
func endDeferred(how string) error {
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		return err
	}
	how, session := strings.CutPrefix(how, "session-")
	if session {
		s, err := p.OpenSession(nil)
		if err != nil {
			return err
		}
		defer p.Leave()
		defer s.Close()
		if err := useSession(s); err != nil {
			return err
		}
	}
	switch how {
	case "index":
		defer func() { finalize(p) }()
	case "recovered":
		defer func() {
			v := recover()
			fmt.Fprintln(os.Stderr, "recovered:", v)
			finalize(p)
			os.Exit(5)
		}()
		how = "panic"
	default:
		if !session {
			defer p.Finalize()
		}
	}
	return end(context.Background(), p, how)
}

// useSession makes a communicator that Close waits for.
func useSession(s *mpi.Session) error {
	g, err := s.Group("mpi://WORLD")
	if err != nil {
		return err
	}
	_, err = mpi.CommFromGroup(g, "end", nil)
	return err
}

func finalize(p *mpi.Process) {
	if err := p.Finalize(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// TestRankEnds: whatever ends a rank, the job ends, the rank is named, and what it says is seen, also a panic with its stack.
func TestRankEnds(t *testing.T) {
	t.Parallel()
	const stack = `goroutine 1 .*\n(.*\n)*.*cmd/ibrun\.end\(`
	for _, c := range []struct {
		words string
		code  int
		err   string
	}{
		{"end none", 0, `(?s)(Main has returned\n){2}`},
		{"end panic", 2, `panic: out of luck\n(.*\n)*` + stack},
		{"end index", 2, `panic: runtime error: index out of range .*\n(.*\n)*` + stack},
		{"end deep-panic", 2, `panic: out of luck\n(.*\n)*` + stack},
		{"end goexit", 2, `the function main of rank LAST has called runtime.Goexit`},
		{"end deep-goexit", 2, `the function main of rank LAST has called runtime.Goexit`},
		{"end goexit-after-panic", 2, `the function main of rank LAST has called runtime.Goexit`},
		{"end panic-after-goexit", 2, `panic: out of luck( \[recovered\])?\n(.*\n)*goroutine 1 `},
		{"end error", 1, `rank LAST: out of luck\n`},
		{"end exit", 1, `rank LAST on .* exited \(code 0\) without calling Finalize`},
		{"end terminate", 1, `rank LAST: ended: context canceled\n`},
		{"end interrupt", 1, `rank LAST: ended: context canceled\n`},
		{"end hang-up", 1, `rank LAST: ended: context canceled\n`},
		{"end signal-in-finalize", 143, `was killed by signal 15 \(SIGTERM\)`},
		{"end later-signal", 143, `was killed by signal 15 \(SIGTERM\)`},
		{"end unused-context", 143, `was killed by signal 15 \(SIGTERM\)`},
		{"end-deferred none", 0, ""},
		{"end-deferred panic", 2, `panic: out of luck\n(.*\n)*` + stack},
		{"end-deferred index", 2, `because of a panic(.*\n)*panic: runtime error: index out of range .*\n(.*\n)*` + stack},
		{"end-deferred goexit", 2, `the function main of rank LAST has called runtime.Goexit`},
		{"end-deferred recovered", 5, `recovered: out of luck\n(.*\n)*.*Finalize at rank LAST.*because of a panic`},
		{"end-deferred session-panic", 2, `panic: out of luck\n(.*\n)*` + stack},
		{"end-deferred session-goexit", 2, `the function main of rank LAST has called runtime.Goexit`},
	} {
		t.Run(c.words, func(t *testing.T) {
			for i := range soaktest.Choose(100, 1) {
				n := 2 + (i+1)%7
				last := fmt.Sprint(n - 1)
				args := []string{"-n", fmt.Sprint(n), "--transport", []string{"shm", "tcp"}[i/7%2], "rank"}
				out := outputOf(t, c.code, "ibrun", append(args, strings.Fields(c.words)...)...)
				if want := strings.ReplaceAll(c.err, "LAST", last); !regexp.MustCompile(want).MatchString(out) {
					t.Fatalf("run %d: want %q in\n%s", i, want, out)
				}
				if c.code != 0 && !strings.Contains(out, "ibrun: rank "+last+" on ") {
					t.Fatalf("run %d: another rank is named:\n%s", i, out)
				}
			}
		})
	}
	for _, how := range []string{"panic", "index", "goexit"} {
		for _, words := range []string{"end", "end-deferred"} {
			if out := outputOf(t, 2, "rank", words, how); how != "goexit" && !strings.Contains(out, "\ngoroutine 1 ") {
				t.Errorf("%s %s without a launcher: %s", words, how, out)
			}
		}
	}
}

// outputOf runs a program, and returns what it prints. It must exit with a code.
func outputOf(t *testing.T, code int, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got, err = exit.ExitCode(), nil
	}
	if err != nil || got != code {
		t.Fatalf("%v, exit code %d, want %d:\n%s", err, got, code, out)
	}
	return string(out)
}
