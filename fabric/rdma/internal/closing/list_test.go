package closing

import (
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
	"github.com/ibrun/ibrun/verbs"
)

// next returns whose connection Next returns, "" if it returns none.
func next(l *List[string]) string {
	if c := l.Next(); c != nil {
		return c.Of
	}
	return ""
}

// TestNext: a connection is looked at when it begins to be closed, for each last completion and
// once in each step, and not once it is closed.
func TestNext(t *testing.T) {
	var l List[string]
	a, b := l.Begin("a"), l.Begin("b")
	if got := []string{next(&l), next(&l), next(&l)}; got[0] != "b" || got[1] != "a" || got[2] != "" {
		t.Errorf("after Begin: %q", got)
	}
	if !l.Step(step) || l.Step(step) || next(&l) != "b" || next(&l) != "a" || next(&l) != "" {
		t.Error("a step does not look at each connection once")
	}
	l.LastCompletion(a)
	l.LastCompletion(b)
	l.LastCompletion(a)
	if l.Finish(a); l.Len() != 1 || next(&l) != "b" || next(&l) != "" {
		t.Error("a closed connection is looked at")
	}
	if l.Finish(b); l.Len() != 0 {
		t.Errorf("%d connections are left", l.Len())
	}
}

// TestOverdue: the last completions are waited for until so many steps have begun.
func TestOverdue(t *testing.T) {
	var l List[string]
	c := l.Begin("a")
	for n := range maxSteps {
		if l.Step(l.StepAt); c.IsOverdue() {
			t.Fatalf("overdue after %d steps", n+1)
		}
	}
	if l.Step(l.StepAt); !c.IsOverdue() {
		t.Error("not overdue")
	}
}

// TestFinishAny: whichever connection is closed, the others stay.
func TestFinishAny(t *testing.T) {
	for i := range 3 {
		var l List[int]
		all := []*Connection[int]{l.Begin(0), l.Begin(1), l.Begin(2)}
		l.Finish(all[i])
		left := map[int]bool{}
		for n, c := range l.all {
			if left[c.Of] = true; c.position != n {
				t.Errorf("%d is at %d, and believes to be at %d", c.Of, n, c.position)
			}
		}
		if len(left) != 2 || left[i] {
			t.Errorf("without %d, these are left: %v", i, left)
		}
	}
}

// TestReasons: the first reason counts, unless it follows from another one.
func TestReasons(t *testing.T) {
	var c Connection[string]
	first, second := errors.New("first"), errors.New("second")
	if c.Break(verbs.StatusFlushed); c.Broken != verbs.StatusFlushed {
		t.Errorf("a flush: %v", c.Broken)
	}
	c.Break(first)
	if c.Break(second); c.Broken != first {
		t.Errorf("broken: %v", c.Broken)
	}
	c.Lose(first)
	if c.Lose(second); c.Down != first {
		t.Errorf("lost: %v", c.Down)
	}
}

// TestFailures: failures are handled in order. One of a connection that the peer does not have any
// more counts only if the peer is lost or has ended.
func TestFailures(t *testing.T) {
	var l List[string]
	old, now := new(posting.QueuePair), new(posting.QueuePair)
	l.Fail("a", old, verbs.ErrState, false)
	l.Fail("b", nil, verbs.ErrState, false)
	if n := l.Failures(); n != 2 {
		t.Errorf("%d failures", n)
	}
	f, _ := l.NextFailure()
	if f.Of != "a" || f.IsStale(old, false) || !f.IsStale(now, false) || !f.IsStale(nil, false) || f.IsStale(now, true) {
		t.Errorf("%+v", f)
	}
	l.Fail("c", old, verbs.ErrState, true) // while others are being handled
	if f, _ = l.NextFailure(); f.Of != "b" || !f.IsStale(nil, false) {
		t.Errorf("%+v", f)
	}
	if f, _ = l.NextFailure(); f.Of != "c" || f.IsStale(now, false) {
		t.Errorf("%+v", f)
	}
	if _, ok := l.NextFailure(); ok || l.Failures() != 0 {
		t.Error("there are more")
	}
}

// TestAbandon: peers that are known to be lost are so for that reason.
func TestAbandon(t *testing.T) {
	var l List[string]
	first, second := errors.New("first"), errors.New("second")
	l.Begin("a").Lose(first)
	l.Begin("b").Break(first)
	l.Fail("c", nil, first, true)
	l.Fail("d", nil, first, false)
	l.Fail("a", nil, second, true)
	if down := l.Abandon(); len(down) != 2 || down["a"] != second || down["c"] != first {
		t.Errorf("%v", down)
	}
	if l.Len() != 0 || l.Failures() != 0 || l.Next() != nil {
		t.Error("the list is not empty")
	}
}
