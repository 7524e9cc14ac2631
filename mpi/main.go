package mpi

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Main is the function main of a program: it opens the World Model with [Init], calls f, and closes it with
// Finalize.
//
//	func main() {
//		mpi.Main(func(ctx context.Context, p *mpi.Process) error {
//			fmt.Println("rank", p.World().Rank(), "of", p.World().Size())
//			return nil
//		})
//	}
//
// ctx ends when the process receives SIGINT, SIGTERM or SIGHUP, and when f has returned. Another signal within a second
// counts as the same request; a later one ends the process. If f does not use ctx, the first one does. Signals that
// are ignored, as in a background job of a shell, remain so.
//
// If f or Finalize fails, Main prints the error, with the rank if there are several, to standard error, and the
// process exits with code 1; so it does if Init fails. It does not wait for the other processes: the launcher ends
// them. A panic of f ends the process as that of any program, and f may call [os.Exit]. Main returns if all have
// succeeded. Not in MPI-5.0.
func Main(f func(ctx context.Context, p *Process) error) {
	p, err := Init(context.Background(), nil)
	if err != nil {
		exit("", err)
	}
	where := ""
	if w := p.World(); w.Size() > 1 {
		where = fmt.Sprintf("rank %d: ", w.Rank())
	}
	returned := false
	defer func() {
		if !returned {
			_ = p.Finalize() // because of a panic, which says more, or of runtime.Goexit, after which it does not return
		}
	}()
	ctx := &signalContext{Context: context.Background()}
	err = f(ctx, p)
	returned = true
	ctx.end()
	if err == nil {
		err = p.Finalize()
	}
	if err != nil {
		exit(where, err)
	}
}

// exit prints the error of a process and ends it.
func exit(where string, err error) {
	fmt.Fprintf(os.Stderr, "%s%v\n", where, err)
	os.Exit(1)
}

// signalContext is a context that ends when the process receives a signal that asks it to end. Signals have their usual effect
// until Done or Err is called, and from sameRequest after the first one on. Any goroutine may use it.
type signalContext struct {
	context.Context // has no deadline and no values
	mu              sync.Mutex
	signals         context.Context // what ends; nil: neither Done nor Err was called
	cancel          context.CancelFunc
	received        chan os.Signal // nil: it has not listened
}

// sameRequest is how long after a signal others are part of the same request: the launcher may forward one that the process has
// received as well.
const sameRequest = time.Second

// current returns the context that ends.
func (c *signalContext) current() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.signals == nil {
		c.signals, c.cancel = context.WithCancel(c.Context)
		c.received = make(chan os.Signal, 1)
		for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			if !signal.Ignored(s) {
				signal.Notify(c.received, s)
			}
		}
		go c.listen()
	}
	return c.signals
}

// listen ends the context at the first signal.
func (c *signalContext) listen() {
	select {
	case <-c.received:
		c.cancel()
		time.AfterFunc(sameRequest, func() { signal.Stop(c.received) })
	case <-c.signals.Done():
	}
}

// end ends the context, and signals have their usual effect again.
func (c *signalContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.signals == nil { // a later use does not listen
		c.signals, c.cancel = context.WithCancel(c.Context)
	}
	if c.received != nil {
		signal.Stop(c.received)
	}
	c.cancel()
}

// Done returns a channel that is closed at the first signal.
func (c *signalContext) Done() <-chan struct{} { return c.current().Done() }

// Err returns an error from the first signal on.
func (c *signalContext) Err() error { return c.current().Err() }
