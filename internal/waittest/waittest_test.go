package waittest

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// recorder is a test that keeps why it failed.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

// failureOf returns why f fails its test; "" if it does not.
func failureOf(t *testing.T, f func(t testing.TB)) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r.failure
}

// TestReached: a wait ends when its condition holds, with and without pauses.
func TestReached(t *testing.T) {
	for _, tries := range []int{1, 2, 5} {
		n := 0
		so := func() bool {
			n++
			time.Sleep(firstPause / 2) // so that the later tries come after pauses
			return n%tries == 0
		}
		Until(t, "so", so)
		Poll(t, "so", so)
		UntilNil(t, "so", func() error { return unless(so, "not yet") })
		if n != 3*tries {
			t.Errorf("%d tries, want %d", n, 3*tries)
		}
	}
	c := make(chan int, 1)
	c <- 7
	if v := Receive(t, "a number", c); v != 7 {
		t.Errorf("received %d", v)
	}
	close(c)
	if v := Receive(t, "a number", c); v != 0 {
		t.Errorf("received %d from a closed channel", v)
	}
}

// TestNeverReached: a wait that ends at its limit says what it waited for, with the last error and all stacks.
func TestNeverReached(t *testing.T) {
	last := errors.New("two of three ranks")
	for name, f := range map[string]func(t testing.TB){
		"pauses":  func(t testing.TB) { wait(t, time.Millisecond, true, func() error { return last }) },
		"polls":   func(t testing.TB) { wait(t, 0, false, func() error { return last }) },
		"receive": func(t testing.TB) { receive(t, time.Millisecond, last.Error(), make(chan int)) },
	} {
		got := failureOf(t, f)
		if !strings.Contains(got, last.Error()) || strings.Count(got, "goroutine ") < 2 {
			t.Errorf("%s: %q", name, got)
		}
	}
	ready := make(chan int, 1)
	Nothing(t, time.Millisecond, "a number", ready)
	ready <- 7
	if got := failureOf(t, func(t testing.TB) { Nothing(t, time.Hour, "a number", ready) }); got != "a number: 7" {
		t.Errorf("Nothing: %q", got)
	}
	if got := failureOf(t, func(t testing.TB) { Elapse(t, 0, "") }); !strings.Contains(got, "without a reason") {
		t.Errorf("Elapse: %q", got)
	}
}

// TestLogIfFailed: the state is asked for if the test has failed, and not otherwise.
func TestLogIfFailed(t *testing.T) {
	for _, failed := range []bool{true, false} {
		r := &logger{failed: failed}
		LogIfFailed(r, func() string { return "two of three" })
		if want := map[bool]string{true: "two of three"}[failed]; r.text != want {
			t.Errorf("failed: %v; it logged %q, want %q", failed, r.text, want)
		}
	}
}

// logger is a test that keeps what it logs.
type logger struct {
	testing.TB
	failed bool
	text   string
}

func (l *logger) Helper()         {}
func (l *logger) Failed() bool    { return l.failed }
func (l *logger) Log(args ...any) { l.text = fmt.Sprint(args...) }

// TestBound: a pipe can be bounded. A closed one fails the test.
func TestBound(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	Bound(t, r)
	r.Close()
	if got := failureOf(t, func(t testing.TB) { Bound(t, r) }); !strings.Contains(got, "closed") {
		t.Errorf("a closed pipe: %q", got)
	}
}

// TestContext: the context lasts until the test ends.
func TestContext(t *testing.T) {
	var ended func() bool
	t.Run("test", func(t *testing.T) {
		ctx := Context(t)
		ended = func() bool { return ctx.Err() != nil }
		if _, limited := ctx.Deadline(); ended() || !limited {
			t.Error("the context has ended, or has no limit")
		}
	})
	if !ended() {
		t.Error("the context of a test that has ended has not ended")
	}
}
