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

// fault breaks one rule of a transport that otherwise keeps all. Functions that are nil break nothing.
type fault struct {
	rule string // the rule that must fail
	open func(t fabric.Transport) fabric.Transport
	wake func(count int, wake func())
	poll func(d *domain, evs []fabric.Event) (int, error)
	send func(e *endpoint, header, payload []byte) error
	read func(e *endpoint, dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error)
	arm  func(d *domain) (int, bool, error)

	slow          bool // found only after a while
	noWake        bool // Wake does nothing
	dirtySegments bool // segments are not all zero
}

var faults = map[string]fault{
	"Duplicates": {rule: "AllToAll", send: func(e *endpoint, header, payload []byte) error {
		if err := e.Endpoint.Send(header, payload); err != nil {
			return err
		}
		if e.d.sends++; e.d.sends >= 100 && e.Endpoint.Send(header, payload) == nil { // without room, the next one is doubled
			e.d.sends = 0
		}
		return nil
	}},
	"Loses": {rule: "SendWindow", slow: true, send: func(e *endpoint, header, payload []byte) error {
		if e.d.sends++; e.d.sends%100 == 0 {
			return nil
		}
		return e.Endpoint.Send(header, payload)
	}},
	"Overtakes": {rule: "SendWindow", open: func(t fabric.Transport) fabric.Transport {
		return hook.Wrap(t, hook.Options{Seed: 1, Reorder: 0.5})
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
	"Accepts the too long": {rule: "SendTooLong", send: func(e *endpoint, header, payload []byte) error {
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
	"Overwrites data early": {rule: "PollDataValid", poll: func(d *domain, evs []fabric.Event) (int, error) {
		n, err := pollCopies(d, evs)
		if d.sends++; d.sends%10 == 0 {
			d.overwrite()
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
	"Reads too far": {rule: "TransferRange", read: readUnchecked},
	"Opens to any":  {rule: "TransferKeys", read: readUnchecked},
	"Reads amiss": {rule: "TransferSizes",
		read: func(e *endpoint, dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error) {
			return e.Endpoint.Read(dst[:len(dst)&^7], local, src, token)
		}},
	"Reports ends twice": {rule: "DownDomain", poll: func(d *domain, evs []fabric.Event) (int, error) {
		if d.duplicate.Kind != 0 && len(evs) > 0 {
			evs[0] = d.duplicate
			d.duplicate = fabric.Event{}
			return 1, nil
		}
		n, err := d.Domain.Poll(evs)
		for _, ev := range evs[:n] {
			if ev.Kind == fabric.PeerDown {
				d.duplicate = ev
			}
		}
		return n, err
	}},
	"Reports no ends": {rule: "DownEndpoint", slow: true, poll: func(d *domain, evs []fabric.Event) (int, error) {
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
	"Oversleeps": {rule: "SleepPingPong", slow: true, wake: func(count int, wake func()) {
		if count%100 != 99 {
			wake()
		}
	}},
	"Never wakes":        {rule: "ShareWake", slow: true, noWake: true},
	"Shares used memory": {rule: "ShareSegment", dirtySegments: true},
	"Allocates": {rule: "Allocs", send: func(e *endpoint, header, payload []byte) error {
		return e.Endpoint.Send(append(slices.Clone(header), payload...), nil)
	}},
	"Leaks goroutines": {rule: "Open", slow: true, open: leakGoroutines},
	"Leaks files":      {rule: "Open", slow: true, open: leakFiles},
}

// readUnchecked succeeds where it must fail.
func readUnchecked(e *endpoint, dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error) {
	_, err := e.Endpoint.Read(dst, local, src, token)
	return !errors.Is(err, fabric.ErrPeerDown), nil
}

// TestBroken: the suite finds every fault. Each fault runs in a process of its own, since a failed test fails its process.
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
			limit, want := 5*time.Minute, "--- FAIL: TestBroken/"+f.rule
			if f.slow {
				limit, want = 2*time.Second, want+"|panic: test timed out"
			}
			cmd := exec.Command(exe, "-test.run=^TestBroken$/^"+f.rule+"$", "-test.timeout="+limit.String(), "-test.v")
			cmd.Env = append(os.Environ(), variable+"="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				t.Fatalf("%s has found nothing: %v\n%s", f.rule, err, out)
			}
			if !regexp.MustCompile(want).Match(out) {
				t.Fatalf("%s has not failed properly: %v\n%s", f.rule, err, out)
			}
		})
	}
}
