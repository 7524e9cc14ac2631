// Package waittest waits in tests for what other goroutines and processes do.
//
// A test must pass on a machine that is busy, however late each goroutine runs. So it waits until a condition holds, and not for
// a time. Limit is only there to end a test of wrong code: then the test fails, says what it waited for, and prints the stacks of
// all goroutines.
//
//	waittest.Until(t, "both ranks are connected", func() bool { return d.connected() == 2 })
//	waittest.UntilNil(t, "the exporter answers", func() error { return scrape(url) })
//	m := waittest.Receive(t, "the answer of node 1", answers)
//
// What must not happen has no event to wait for. Elapse and Nothing let a time pass in which it would happen.
//
// All functions but Context and LogIfFailed must be called by the goroutine of the test, since they end it by t.Fatal.
package waittest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// Limit is how long a test waits for something that must happen. Nothing takes a tenth of it on a machine that is busy.
const Limit = 2 * time.Minute

// Pauses between two tries. Most conditions read a file or start a process, and what is waited for needs the processors.
const (
	firstPause = time.Millisecond // before that much time has passed, there are yields in place of pauses
	maxPause   = 16 * time.Millisecond
)

// Until calls so again and again until it returns true. It fails the test after Limit.
func Until(t testing.TB, what string, so func() bool) {
	t.Helper()
	wait(t, Limit, true, func() error { return unless(so, what) })
}

// UntilNil calls try again and again until it returns nil. It fails the test after Limit, with the last error.
func UntilNil(t testing.TB, what string, try func() error) {
	t.Helper()
	wait(t, Limit, true, func() error {
		if err := try(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
}

// Poll is Until without pauses, for a condition that makes the progress itself, as by polling a domain.
func Poll(t testing.TB, what string, so func() bool) {
	t.Helper()
	wait(t, Limit, false, func() error { return unless(so, what) })
}

// LogIfFailed logs what state returns if the test has failed. Defer it before a wait, to show the state when the wait has failed.
// After a panic of a test that has not failed before, it does not call state, which may need what is locked then.
func LogIfFailed(t testing.TB, state func() string) {
	t.Helper()
	if t.Failed() {
		t.Log(state())
	}
}

// unless returns what as an error if the condition does not hold.
func unless(so func() bool, what string) error {
	if so() {
		return nil
	}
	return errors.New(what)
}

// Receive returns what is received from c; the zero value if c is closed. It fails the test after Limit.
func Receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	return receive(t, Limit, what, c)
}

// Context returns a context that ends with the test, or after Limit. A call that blocks until then returns an error, and the
// cause of the context says why.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), Limit, fmt.Errorf("the test has waited for %v", Limit))
	t.Cleanup(cancel)
	return ctx
}

// Elapse returns after d. why says what must not happen meanwhile, or what needs that time. A machine that is busy makes it
// longer, and never shorter.
func Elapse(t testing.TB, d time.Duration, why string) {
	t.Helper()
	if why == "" {
		t.Fatal("waittest.Elapse without a reason")
	}
	time.Sleep(d)
}

// Nothing fails the test if something is received from c, or c is closed, within d. what says what that would be.
func Nothing[T any](t testing.TB, d time.Duration, what string, c <-chan T) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case v := <-c:
		t.Fatalf("%s: %+v", what, v)
	case <-timer.C:
	}
}

// Bound makes every later call of a connection or a pipe end after Limit, with an error that wraps os.ErrDeadlineExceeded.
func Bound(t testing.TB, c interface{ SetDeadline(time.Time) error }) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(Limit)); err != nil {
		t.Fatal(err)
	}
}

// wait calls try until it returns nil, with pauses if pause is set.
func wait(t testing.TB, limit time.Duration, pause bool, try func() error) {
	t.Helper()
	next := firstPause
	begin := time.Now()
	for {
		waited := time.Since(begin) // before the try: the last one begins after the limit, however late this goroutine is
		err := try()
		if err == nil {
			return
		}
		if waited > limit {
			fail(t, limit, err)
		}
		if !pause || waited < firstPause {
			runtime.Gosched()
			continue
		}
		time.Sleep(next)
		next = min(2*next, maxPause)
	}
}

func receive[T any](t testing.TB, limit time.Duration, what string, c <-chan T) (v T) {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v = <-c:
	case <-timer.C:
		select {
		case v = <-c: // it came before this goroutine ran
		default:
			fail(t, limit, errors.New(what))
		}
	}
	return v
}

// fail fails the test with what it has waited for, and prints the stacks of all goroutines.
func fail(t testing.TB, limit time.Duration, what error) {
	t.Helper()
	stacks := make([]byte, 256<<10)
	t.Fatalf("not within %v: %v\n%s", limit, what, stacks[:runtime.Stack(stacks, true)])
}
