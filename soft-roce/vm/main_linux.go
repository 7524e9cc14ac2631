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

// main runs vm on the host, or one of the programs in the guest: init, the agent, or vm exec.
func main() {
	args := os.Args[1:]
	subcommand := ""
	if len(args) > 0 {
		subcommand = args[0]
	}
	switch {
	case os.Getpid() == 1 && os.Args[0] == "/"+guest.InitFile: // the kernel may add arguments
		guest.Init()
	case subcommand == guest.AgentWord && len(args) == 2:
		fail(guest.Agent(args[1]))
	case subcommand == "exec":
		os.Exit(guest.Exec(args[1:]))
	}
	os.Exit(host(args))
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "vm: %v\n", err)
	os.Exit(codeFailed)
}

// interrupted is the cause of the end of a run that was ended by a signal.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return "ended by " + unix.SignalName(i.signal) }

// errTimeout is the cause of the end of a run that took too long.
var errTimeout = errors.New("timeout")

// host runs vm on the host and returns the exit code.
func host(args []string) int {
	o, err := parse(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return codeUse
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), o.timeout, errTimeout)
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
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTimeout):
		fmt.Fprintf(os.Stderr, "vm: %v: %s did not end within %v\n", cause, o.command[0], o.timeout)
		code = codeTimeout
	case errors.As(cause, &by):
		code = codeSignal + int(by.signal)
	case err != nil && code <= 0:
		code = codeFailed
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "vm: %v\n", err)
	}
	return code
}
