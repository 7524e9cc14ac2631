package console

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
)

// EndSignals returns the signals by which a user asks a job to end. A second one kills it.
func EndSignals() []os.Signal { return []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} }

// Notify sends these signals to a channel, except those that are ignored because of nohup or a shell's &.
func Notify(to chan<- os.Signal, signals []os.Signal) {
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			signal.Notify(to, sig)
		}
	}
}

// HangViewSignal asks for the hang view: which ranks wait for which others.
const HangViewSignal = unix.SIGUSR1

// ForwardedSignals returns the signals that are only forwarded to the ranks.
func ForwardedSignals() []os.Signal {
	return []os.Signal{unix.SIGQUIT, unix.SIGUSR2, unix.SIGALRM, unix.SIGWINCH, unix.SIGTSTP, unix.SIGCONT}
}

// Interruptible returns a context that is cancelled when the user asks the job to end. what names the interrupted work in the
// error. The caller must call stop.
func Interruptible(what string) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	Notify(signals, EndSignals())
	go func() {
		if sig, ok := <-signals; ok {
			cancel(exitcode.Errorf(exitcode.SignalBase+int(sig.(syscall.Signal)), "%s was stopped by a signal: %v", what, sig))
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
	}
}
