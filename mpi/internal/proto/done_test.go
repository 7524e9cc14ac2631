package proto

import (
	"errors"
	"sync"
	"testing"
)

// isClosed reports whether a channel is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// serverEnded returns when the goroutine of serveChannels has ended, if there is one.
func serverEnded(e *Engine) {
	e.lock()
	ended := e.requests.channels.ended
	e.unlock()
	if ended != nil {
		<-ended
	}
}

// TestDone: a channel is closed when its operation completes, though the program calls nothing
// meanwhile. All channels have one goroutine, which ends with the last of them.
func TestDone(t *testing.T) {
	es := open(t, 2, nil, nil)
	e := es[0]
	const n = 5
	hs, cs := make([]Handle, n), make([]<-chan struct{}, n)
	for i := range hs {
		hs[i] = e.Irecv(from(1, int32(i)), make([]byte, 100))
		cs[i] = e.Requests().Done(hs[i])
		if e.Requests().Done(hs[i]) != cs[i] || isClosed(cs[i]) {
			t.Fatal("a second call returns another channel, or the channel is closed")
		}
	}
	server := e.requests.channels.ended
	for i := range hs {
		awaitSleepers(e, 1)
		if err := es[1].Send(to(1, 0, int32(i)), make([]byte, 100), Standard); err != nil {
			t.Fatal(err)
		}
		<-cs[i]
		if !isClosed(e.Requests().Done(hs[i])) {
			t.Error("the channel of a completed request is open")
		}
		if _, err := e.Requests().Wait(hs[i]); err != nil {
			t.Error(err)
		}
		if !isClosed(e.Requests().Done(hs[i])) {
			t.Error("the channel of a stale handle is open")
		}
	}
	<-server
	if len(e.requests.channels.open) != 0 || e.requests.channels.ended != nil {
		t.Error("channels are left")
	}
}

// TestDoneLocal: the goroutine ends if the last operation completes without a message.
func TestDoneLocal(t *testing.T) {
	e := open(t, 1, nil, nil)[0]
	for range 3 {
		h := e.Requests().StartGrequest()
		c := e.Requests().Done(h)
		awaitSleepers(e, 1)
		if err := e.Requests().CompleteGrequest(h, nil); err != nil {
			t.Fatal(err)
		}
		<-c
		serverEnded(e)
	}
	h := e.Irecv(from(0, 1), make([]byte, 1))
	c := e.Requests().Done(h)
	if err := errors.Join(e.Requests().Cancel(h), e.Requests().Free(h)); err != nil {
		t.Fatal(err)
	}
	<-c
	serverEnded(e)
}

// TestDoneEnds: a failure of the engine and its end close all channels, and no goroutine is left.
func TestDoneEnds(t *testing.T) {
	failed := errors.New("failed")
	for name, end := range map[string]func(e *Engine) error{
		"Abort": func(e *Engine) error { e.Processes().Abort(failed); return nil },
		"Close": (*Engine).Close,
	} {
		for _, asleep := range []bool{false, true} {
			e := open(t, 1, nil, nil)[0]
			h, free := e.Requests().StartGrequest(), e.Requests().StartGrequest()
			c := e.Requests().Done(h)
			freed := e.Requests().Done(free)
			if err := e.Requests().Abandon(free); err != nil {
				t.Fatal(err)
			}
			if asleep {
				awaitSleepers(e, 1)
			}
			if err := end(e); err != nil {
				t.Fatal(err)
			}
			<-c
			<-freed
			serverEnded(e)
			if !isClosed(e.Requests().Done(h)) || len(e.requests.channels.open) != 0 {
				t.Errorf("%s: channels are open", name)
			}
		}
	}
}

// TestDonePersistent: each operation of a persistent request has its own channel.
func TestDonePersistent(t *testing.T) {
	e := open(t, 1, nil, nil)[0]
	h := e.RecvInit(from(0, 1), oneBlock(make([]byte, 1)))
	if !isClosed(e.Requests().Done(h)) {
		t.Error("the channel of an inactive request is open")
	}
	for range 3 {
		if err := e.Start(h); err != nil {
			t.Fatal(err)
		}
		c := e.Requests().Done(h)
		if isClosed(c) {
			t.Fatal("the channel is closed before the operation completes")
		}
		if err := e.Send(to(0, 0, 1), make([]byte, 1), Standard); err != nil {
			t.Fatal(err)
		}
		<-c
		if _, err := e.Requests().Wait(h); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDoneGoroutines: many goroutines ask for channels and complete requests at the same time.
func TestDoneGoroutines(t *testing.T) {
	e := open(t, 1, nil, nil)[0]
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				h := e.Requests().StartGrequest()
				c := e.Requests().Done(h)
				all.Go(func() { e.Requests().CompleteGrequest(h, nil) })
				<-c
				if _, err := e.Requests().Wait(h); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	serverEnded(e)
}
