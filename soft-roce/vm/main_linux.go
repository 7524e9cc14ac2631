package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/soft-roce/vm/internal/guest"
)

// The same program is vm on the host, and everything that runs in the guest.
func main() {
	args := os.Args[1:]
	word := ""
	if len(args) > 0 {
		word = args[0]
	}
	switch {
	case os.Getpid() == 1 && os.Args[0] == "/"+guest.InitFile: // the kernel's words for itself may follow
		guest.Init()
	case word == guest.AgentWord && len(args) == 2:
		fail(guest.Agent(args[1]))
	case word == "exec":
		os.Exit(guest.Exec(args[1:]))
	}
	os.Exit(host(args))
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "vm: %v\n", err)
	os.Exit(codeFailed)
}

// interrupted is why a run ends that somebody ends by a signal.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return "ended by " + unix.SignalName(i.signal) }

// errTime is why a run ends that took too long.
var errTime = errors.New("the time is up")

// host is vm outside of guests. It returns the exit code.
func host(args []string) int {
	o, err := parse(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return codeUse
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), o.timeout, errTime)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		s := <-signals
		end(interrupted{s.(syscall.Signal)})
	}()

	code, err := run(ctx, o)
	var by interrupted
	switch why := context.Cause(ctx); {
	case errors.Is(why, errTime):
		fmt.Fprintf(os.Stderr, "vm: %v: %s did not end within %v\n", why, o.command[0], o.timeout)
		code = codeTimeout
	case errors.As(why, &by):
		code = codeSignal + int(by.signal)
	case err != nil && code <= 0:
		code = codeFailed
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "vm: %v\n", err)
	}
	return code
}
