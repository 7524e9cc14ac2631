package fabrictest_test

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/fabric/hook"
	"github.com/ibrun/ibrun/fabric/mem"
)

// fault is a way to break a rule, laid over a transport that keeps them all. Functions that are nil break nothing.
type fault struct {
	rule string // that must notice
	open func(t fabric.Transport) fabric.Transport
	wake func(count int, wake func())
	poll func(d *domain, evs []fabric.Event) (int, error)
	send func(e *endpoint, header, payload []byte) error
	read func(e *endpoint, dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error)
	arm  func(d *domain) (int, bool, error)

	hangs bool // is noticed only after a while
	deaf  bool // Wake does nothing
	dirty bool // segments are not all zero
}

var faults = map[string]fault{
	"Duplicates": {rule: "AllToAll", send: func(e *endpoint, header, payload []byte) error {
		if err := e.Endpoint.Send(header, payload); err != nil {
			return err
		}
		if e.d.sends++; e.d.sends%100 == 0 {
			for e.Endpoint.Send(header, payload) == fabric.ErrAgain {
			}
		}
		return nil
	}},
	"Loses": {rule: "SendWindow", hangs: true, send: func(e *endpoint, header, payload []byte) error {
		if e.d.sends++; e.d.sends%100 == 0 {
			return nil
		}
		return e.Endpoint.Send(header, payload)
	}},
	"Overtakes": {rule: "SendWindow", open: func(t fabric.Transport) fabric.Transport {
		return hook.Wrap(t, hook.Options{Seed: 1, Shuffle: 0.5})
	}},
	"Cuts off": {rule: "SendLengths", send: func(e *endpoint, header, payload []byte) error {
		return e.Endpoint.Send(header, payload[:len(payload)&^1])
	}},
	"Confuses": {rule: "SendLengths", send: func(e *endpoint, header, payload []byte) error {
		return e.Endpoint.Send(payload, header)
	}},
	"Sends what it refuses": {rule: "SendWindow", send: func(e *endpoint, header, payload []byte) error {
		err := e.Endpoint.Send(header, payload)
		if e.d.sends++; err == nil && e.d.sends%50 == 0 {
			err = fabric.ErrAgain
		}
		return err
	}},
	"Swallows": {rule: "SendWindow", send: func(e *endpoint, header, payload []byte) error {
		if err := e.Endpoint.Send(header, payload); err != fabric.ErrAgain {
			return err
		}
		return nil
	}},
	"Takes the too long": {rule: "SendTooLong", send: func(e *endpoint, header, payload []byte) error {
		if len(header)+len(payload) > e.d.Caps().MaxSend {
			return nil
		}
		return e.Endpoint.Send(header, payload)
	}},
	"Wraps ErrAgain": {rule: "Flood", send: func(e *endpoint, header, payload []byte) error {
		if err := e.Endpoint.Send(header, payload); err != nil {
			return errors.Join(errors.New("send"), err)
		}
		return nil
	}},
	"Ends loans early": {rule: "PollLends", poll: func(d *domain, evs []fabric.Event) (int, error) {
		n, err := forward(d, evs)
		if d.sends++; d.sends%10 == 0 {
			d.spoil()
		}
		return n, err
	}},
	"Overfills": {rule: "PollSlices", poll: func(d *domain, evs []fabric.Event) (int, error) {
		n, err := d.Domain.Poll(evs)
		if len(evs) == 0 {
			n++
		}
		return n, err
	}},
	"Reads too far": {rule: "TransferRange", read: readAnything},
	"Opens to any":  {rule: "TransferKeys", read: readAnything},
	"Reads amiss": {rule: "TransferSizes",
		read: func(e *endpoint, dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error) {
			return e.Endpoint.Read(dst[:len(dst)&^7], local, src, token)
		}},
	"Tells ends twice": {rule: "DownDomain", poll: func(d *domain, evs []fabric.Event) (int, error) {
		if d.again.Kind != 0 && len(evs) > 0 {
			evs[0] = d.again
			d.again = fabric.Event{}
			return 1, nil
		}
		n, err := d.Domain.Poll(evs)
		for _, ev := range evs[:n] {
			if ev.Kind == fabric.PeerDown {
				d.again = ev
			}
		}
		return n, err
	}},
	"Tells no ends": {rule: "DownEndpoint", hangs: true, poll: func(d *domain, evs []fabric.Event) (int, error) {
		n, err := d.Domain.Poll(evs)
		return len(slices.DeleteFunc(evs[:n], func(ev fabric.Event) bool { return ev.Kind == fabric.PeerDown })), err
	}},
	"Sends to the dead": {rule: "DownDomain", send: func(e *endpoint, header, payload []byte) error {
		if err := e.Endpoint.Send(header, payload); !errors.Is(err, fabric.ErrPeerDown) {
			return err
		}
		return nil
	}},
	"Never sleeps": {rule: "SleepIdle", arm: func(*domain) (int, bool, error) { return -1, true, nil }},
	"Oversleeps": {rule: "SleepPingPong", hangs: true, wake: func(count int, wake func()) {
		if count%100 != 99 {
			wake()
		}
	}},
	"Is deaf":     {rule: "ShareRing", hangs: true, deaf: true},
	"Shares dirt": {rule: "ShareSegment", dirty: true},
	"Allocates": {rule: "Allocs", send: func(e *endpoint, header, payload []byte) error {
		return e.Endpoint.Send(append(slices.Clone(header), payload...), nil)
	}},
	"Leaks goroutines": {rule: "Open", hangs: true, open: leakGoroutines},
	"Leaks files":      {rule: "Open", hangs: true, open: leakFiles},
}

// readAnything succeeds where it must not.
func readAnything(e *endpoint, dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error) {
	_, err := e.Endpoint.Read(dst, local, src, token)
	return !errors.Is(err, fabric.ErrPeerDown), nil
}

// The suite notices whatever is wrong. Each fault runs in a process of its own, since a test that fails fails its
// process.
func TestBroken(t *testing.T) {
	const variable = "FABRICTEST_FAULT"
	if name, ok := os.LookupEnv(variable); ok {
		t.Logf("the transport %s", name)
		fabrictest.Run(t, func(_ testing.TB, n int) []fabric.Transport {
			tr := mem.NewHub(n).Transport()
			if f := faults[name]; f.open != nil {
				tr = f.open(tr)
			} else {
				tr = faulty{tr, f}
			}
			return slices.Repeat([]fabric.Transport{tr}, n)
		})
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit, noticed := time.Minute, "--- FAIL: TestBroken/"+f.rule
			if f.hangs {
				limit, noticed = 2*time.Second, noticed+"|panic: test timed out"
			}
			cmd := exec.Command(exe, "-test.run=^TestBroken$/^"+f.rule+"$", "-test.timeout="+limit.String(), "-test.v")
			cmd.Env = append(os.Environ(), variable+"="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				t.Fatalf("%s has not noticed: %v\n%s", f.rule, err, out)
			}
			if !regexp.MustCompile(noticed).Match(out) {
				t.Fatalf("%s has not failed properly: %v\n%s", f.rule, err, out)
			}
		})
	}
}
