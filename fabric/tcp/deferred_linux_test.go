package tcp

import (
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/waittest"
)

// TestKept: SendLater keeps messages if they are few and not too long. They leave with the first one that it does not keep.
func TestKept(t *testing.T) {
	const half = longestDeferred / 2
	ds, e := helloPair(t)
	for name, lengths := range map[string][]int{
		"a long message": {100, longestDeferred},
		"many messages":  slices.Repeat([]int{half}, maxDeferred/(headerBytes+half)+1),
	} {
		waittest.Poll(t, name+": only the last one is not kept", func() bool { // unless the timer has expired in between
			pollOne(t, ds[0]) // which sends what is kept
			for pollOne(t, ds[1]).Kind == fabric.Message {
			}
			for i, n := range lengths {
				kept, err := e.SendLater(make([]byte, n), nil)
				if err == fabric.ErrAgain { // the kernel has not taken what was sent before
					return false
				} else if err != nil {
					t.Fatal(err)
				}
				if last := i == len(lengths)-1; kept == last {
					return false
				}
			}
			e.d.mu.Lock()
			defer e.d.mu.Unlock()
			return !e.out.deferred
		})
	}
}

// TestKeptLeavesByTimer: messages that are kept leave if the program calls nothing more, also if the timer had become slow.
func TestKeptLeavesByTimer(t *testing.T) {
	ds, e := helloPair(t)
	e.d.mu.Lock()
	e.d.progress.start()
	e.d.progress.interval = maxInterval
	e.d.mu.Unlock()
	if kept, err := e.SendLater([]byte("later"), nil); err != nil || !kept {
		t.Fatalf("it is kept: %v, %v", kept, err)
	}
	e.d.mu.Lock()
	if e.d.progress.interval > minInterval && e.out.deferred {
		t.Errorf("the timer expires after %v", e.d.progress.interval)
	}
	e.d.mu.Unlock()
	waittest.Poll(t, "the message arrives", func() bool {
		ev := pollOne(t, ds[1]) // not ds[0]
		return ev.Kind == fabric.Message && string(ev.Data) == "later"
	})
}

// TestKeptLeaves: what is kept leaves with whatever is called next.
func TestKeptLeaves(t *testing.T) {
	ds, e := helloPair(t)
	for name, next := range map[string]func() error{
		"Send":     func() error { return e.Send([]byte("next"), nil) },
		"SendFrom": func() error { return e.SendFrom([]byte("ne"), &strided{[]byte("x.t."), 1}, 0, 2) },
		"Push":     func() error { return e.Push([]byte("next"), fabric.RemoteKey{}, 0) },
		"Flush":    func() error { e.Flush(); return nil },
		"Poll":     func() error { pollOne(t, ds[0]); return nil },
	} {
		if kept, err := e.SendLater([]byte("kept"), nil); err != nil || !kept {
			t.Fatalf("%s: it is kept: %v, %v", name, kept, err)
		}
		if err := next(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		e.d.mu.Lock()
		if e.out.deferred {
			t.Errorf("after %s something is kept", name)
		}
		e.d.mu.Unlock()
		for _, want := range []string{"kept", "next"} {
			if want == "next" && (name == "Flush" || name == "Poll") {
				continue
			}
			waittest.Poll(t, name+": "+want+" arrives", func() bool {
				ev := pollOne(t, ds[1])
				return ev.Kind == fabric.Message && string(ev.Data) == want
			})
		}
	}
}

// TestKeptLeavesBeforeRead: what is kept is sent before a Read is requested.
func TestKeptLeavesBeforeRead(t *testing.T) {
	ds, e := helloPair(t)
	src, dst := make([]byte, 1000), make([]byte, 1000)
	remote, err := ds[1].Register(src)
	if err != nil {
		t.Fatal(err)
	}
	local, err := ds[0].Register(dst)
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := e.SendLater([]byte("later"), nil); err != nil || !kept {
		t.Fatalf("it is kept: %v, %v", kept, err)
	}
	done, err := e.Read(dst, local, remote.Remote, 7)
	e.d.mu.Lock()
	if err != nil || e.out.deferred {
		t.Errorf("after the Read something is kept: %v, %v", e.out.deferred, err)
	}
	e.d.mu.Unlock()
	waittest.Poll(t, "the Read is done", func() bool {
		if !done {
			ev := pollOne(t, ds[0])
			done = ev.Kind == fabric.Done && ev.Token == 7
		}
		pollOne(t, ds[1])
		return done
	})
}
