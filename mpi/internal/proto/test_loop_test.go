package proto

import (
	"context"
	"runtime"
	"testing"

	"github.com/ibrun/ibrun/perf"
)

// testLoopLimit is more than the calls that a loop makes while others may run, and less than a
// hundredth of those that it makes until the runtime preempts it.
const testLoopLimit = 1000

// TestTestLoop: on one processor, a loop of calls that do not wait lets the goroutine run that
// completes a generalized request.
func TestTestLoop(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	e := open(t, 2, nil, func(c *Config) { c.Oversubscribed = false })[0]
	receive := e.Schedules().PrecvInit(from(1, 2), Partitions{Buf: make([]byte, 8), Count: 1, Failed: func(error) {}})
	if err := e.Start(receive); err != nil {
		t.Fatal(err)
	}
	for name, look := range map[string]func(Handle) (bool, error){
		"Test": func(h Handle) (bool, error) { _, done, err := e.Requests().Test(h); return done, err },
		"Testany": func(h Handle) (bool, error) {
			_, _, done, err := e.Requests().TestAny(perf.Testany, []Handle{h})
			return done, err
		},
		"Testsome": func(h Handle) (bool, error) {
			n, err := e.Requests().TestSome(perf.Testsome, []Handle{h}, func(int, Status, error) {})
			return n != 0, err
		},
		"Testall": e.Requests().PollCompleted,
		"Iprobe": func(h Handle) (bool, error) {
			_, _, err := e.Probes().Probe(context.Background(), from(1, 1), false)
			return e.Completed(h), err
		},
		"Parrived": func(h Handle) (bool, error) {
			_, err := e.Schedules().Parrived(receive, 0)
			return e.Completed(h), err
		},
	} {
		h := e.Requests().StartGrequest()
		completed := make(chan error, 1)
		go func() { completed <- e.Requests().CompleteGrequest(h, nil) }()
		if calls := callsUntil(t, func() (bool, error) { return look(h) }); calls > testLoopLimit {
			t.Errorf("%d calls of %s until the request was completed", calls, name)
		}
		if err := <-completed; err != nil {
			t.Error(err)
		}
		if _, err := e.Requests().Wait(h); err != nil && err != ErrStale { // some of the calls have collected it
			t.Error(err)
		}
	}
}

// TestTestLoopBesideWait: on one processor, a loop of Test lets the goroutine run for which its
// polls receive messages.
func TestTestLoopBesideWait(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	es := open(t, 2, nil, func(c *Config) { c.Oversubscribed = false })
	const messages = 20
	last := int32(messages)
	go func() {
		for tag := range last {
			if _, err := es[0].Recv(from(1, tag), make([]byte, 8)); err != nil {
				t.Error(err)
			}
			if err := es[0].Send(to(0, 1, tag), make([]byte, 8), Standard); err != nil {
				t.Error(err)
			}
		}
	}()
	h := es[0].Irecv(from(1, last), make([]byte, 8))
	for tag := range last + 1 {
		if err := es[1].Send(to(1, 0, tag), make([]byte, 8), Standard); err != nil {
			t.Fatal(err)
		}
		if tag == last {
			break
		}
		calls := callsUntil(t, func() (bool, error) {
			if _, done, err := es[0].Requests().Test(h); done || err != nil {
				t.Fatalf("done: %v, %v", done, err)
			}
			_, arrived, err := es[1].Probes().Probe(context.Background(), from(0, tag), false)
			return arrived, err
		})
		if calls > testLoopLimit {
			t.Errorf("%d calls of Test until the goroutine had received message %d", calls, tag)
		}
		if _, err := es[1].Recv(from(0, tag), make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := es[0].Requests().Wait(h); err != nil {
		t.Error(err)
	}
}

// callsUntil returns how often it has called look until look has returned true.
func callsUntil(t *testing.T, look func() (bool, error)) int {
	t.Helper()
	for n := 1; ; n++ {
		if done, err := look(); err != nil {
			t.Fatal(err)
		} else if done {
			return n
		}
	}
}
