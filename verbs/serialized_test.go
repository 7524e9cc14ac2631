//go:build linux

package verbs_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
)

// callsOn are the calls on a queue pair that the promise of a serialized one covers, apart from changes of its state.
func callsOn(r *rig, q *verbs.QP, to verbs.Remote) map[string]func() error {
	sge := r.mr.SGE(0, 8)
	return map[string]func() error{
		"Send":            func() error { return q.Send(1, verbs.RingDoorbell, sge) },
		"SendImm":         func() error { return q.SendImm(1, 0, 1, sge) },
		"SendInline":      func() error { return q.SendInline(1, 0, make([]byte, 8)) },
		"SendInvalidate":  func() error { return q.SendInvalidate(1, 0, 1, sge) },
		"Write":           func() error { return q.Write(1, 0, to, sge) },
		"WriteImm":        func() error { return q.WriteImm(1, 0, 1, to, sge) },
		"WriteInline":     func() error { return q.WriteInline(1, 0, to, make([]byte, 8)) },
		"Read":            func() error { return q.Read(1, 0, to, sge) },
		"CompareSwap":     func() error { return q.CompareSwap(1, 0, to, 0, 0, sge) },
		"FetchAdd":        func() error { return q.FetchAdd(1, 0, to, 0, sge) },
		"LocalInvalidate": func() error { return q.LocalInvalidate(1, 0, 1) },
		"Post":            func() error { return q.Post(&verbs.Request{Op: verbs.OpSend, SGE: []verbs.SGE{sge}}) },
		"Ring":            q.Ring,
		"Recv":            func() error { return q.Recv(1, sge) },
		"RecvList":        func() error { _, err := q.RecvList([]verbs.Receive{{ID: 1, SGE: sge}}); return err },
	}
}

// TestSerialized: posts to a serialized pair take no lock of the pair. The test holds the locks meanwhile.
func TestSerialized(t *testing.T) {
	_, r := newFake(t)
	q, _ := r.pair(verbs.QPConfig{Type: verbs.RC, Serialized: true, MaxInline: 8})
	release := q.HoldLocks()
	defer release()
	done := make(chan error)
	calls := callsOn(r, q, r.mr.Remote(0))
	for what, call := range calls {
		go func() { done <- call() }()
		if err := waittest.Receive(t, what+" takes no lock", done); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestSerializedLost: the event of a lost device ends posts to a serialized pair.
func TestSerializedLost(t *testing.T) {
	k, r := newFake(t)
	q, _ := r.pair(verbs.QPConfig{Type: verbs.RC, Serialized: true})
	sge := r.mr.SGE(0, 8)
	posted := func() []error { return []error{q.Send(1, verbs.RingDoorbell, sge), q.Recv(1, sge)} }
	for range 3 {
		must(t, errors.Join(posted()...))
	}
	k.RemoveDevice()
	isLost := func(err error) bool { return errors.Is(err, verbs.ErrDeviceLost) }
	waittest.Poll(t, "posts fail with ErrDeviceLost", func() bool {
		return !slices.ContainsFunc(posted(), func(err error) bool { return !isLost(err) })
	})
}
