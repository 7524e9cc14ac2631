package console

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"golang.org/x/sys/unix"
)

// EndSignals are the signals by which a user asks a job to end; a second one makes it end.
func EndSignals() []os.Signal { return []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} }

// Notify has these signals sent to a channel, except those that nohup or a shell's & has set to be ignored.
func Notify(to chan<- os.Signal, signals []os.Signal) {
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			signal.Notify(to, sig)
		}
	}
}

// viewSignal asks for the hang view.
const HangViewSignal = unix.SIGUSR1

// ForwardedSignals are those that are passed on to the ranks and change nothing else.
func ForwardedSignals() []os.Signal {
	return []os.Signal{unix.SIGQUIT, unix.SIGUSR2, unix.SIGALRM, unix.SIGWINCH, unix.SIGTSTP, unix.SIGCONT}
}

// Interruptible is a context that ends when the user wants the job to end.
func Interruptible(what string) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	Notify(signals, EndSignals())
	go func() {
		if sig, ok := <-signals; ok {
			cancel(exitcode.Errorf(exitcode.SignalBase+int(sig.(syscall.Signal)), "%s was stopped: %v", what, sig))
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
	}
}
