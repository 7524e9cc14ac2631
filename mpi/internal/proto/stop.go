package proto

import "context"

// A call that is given a context.Context ends when that ends. context.AfterFunc then sets a flag
// with the engine's lock held and wakes the goroutine of the call if it sleeps. The goroutine finds
// the flag, and undoes what it has started. It registers the function only if it has polled in vain
// for a while, since that takes longer than a short wait.

// stopper is the flag. It is protected by the engine's lock.
type stopper struct {
	w       *waiters
	set     bool
	sleeper *sleeper // the goroutine that is to stop; nil: it does not sleep
}

func (s *stopper) stop() {
	s.w.mu.Lock()
	s.end()
	s.w.mu.Unlock()
}

// end is stop with the engine's lock held.
func (s *stopper) end() {
	s.set = true
	if s.sleeper != nil {
		s.w.rouse(s.sleeper)
	}
}

// isSet reports whether the wait is to end; not for nil.
func (s *stopper) isSet() bool { return s != nil && s.set }

// StoppedError reports that a wait ended because its context.Context ended. It wraps the error of
// the context and its cause.
type StoppedError struct{ err, cause error }

func stoppedBy(ctx context.Context) *StoppedError {
	return &StoppedError{ctx.Err(), context.Cause(ctx)}
}

// Stopped returns a StoppedError if ctx has ended, or nil.
func Stopped(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return stoppedBy(ctx)
}

// Error returns the cause of the context, which is its error unless the program has given another.
func (s *StoppedError) Error() string { return s.cause.Error() }

// Unwrap returns the error of the context, and its cause.
func (s *StoppedError) Unwrap() []error { return []error{s.err, s.cause} }

// awaitContext is await that also ends when ctx ends. It returns an error in that case only, unless
// the goal has been reached nevertheless.
func (w *waiters) awaitContext(ctx context.Context, g *goal) error {
	if ctx.Done() == nil {
		w.await(g)
		return nil
	}
	return w.awaitStoppable(ctx, g)
}

// awaitStoppable is awaitContext for a ctx that may end. The command ibrun finds its name in the
// stacks of a rank: such a rank may continue by itself, so it is not deadlocked.
//
//go:noinline
func (w *waiters) awaitStoppable(ctx context.Context, g *goal) error {
	g.stop = &stopper{w: w, set: ctx.Err() != nil}
	if !g.stop.set {
		unregister := context.AfterFunc(ctx, g.stop.stop)
		defer unregister()
	}
	w.await(g)
	if g.stop.set && !w.reached(g) {
		return stoppedBy(ctx)
	}
	return nil
}
