package verbs

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"
)

// TestErrorText compares texts of errors of all forms.
func TestErrorText(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&Error{Op: "open", Kind: ErrNoDevice, Detail: "no RDMA device found"}, "verbs: open: no RDMA device found"},
		{&Error{Op: "open", Device: "rxe7", Kind: ErrNoDevice, Detail: "other devices exist, such as rxe0"},
			"verbs: open on rxe7: no such device: other devices exist, such as rxe0"},
		{&Error{Op: "post a SEND", Device: "rxe0", QPN: 0x11, ID: 7, Post: true, Kind: ErrFull, Detail: "it holds 3 requests"},
			"verbs: post a SEND on rxe0, queue pair 0x11, request 7: the queue is full: it holds 3 requests"},
		{&Error{Op: "ring", Device: "rxe0", Kind: ErrDeviceLost, Err: syscall.EIO},
			"verbs: ring on rxe0: the device was lost: input/output error"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if !errors.Is(&Error{Kind: ErrNoDevice}, fs.ErrNotExist) {
		t.Error("ErrNoDevice is not fs.ErrNotExist")
	}
}
