//go:build linux && !static && (amd64 || arm64)

package verbstest_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// loop is a queue pair that is connected with another one of the same device, which the mock has.
type loop struct {
	*testing.T
	lib *ibvmock.Library
	dev *verbs.Context
	pd  *verbs.PD
	cq  *verbs.CQ
	qp  *verbs.QP
}

func newLoop(t *testing.T) *loop {
	l := &loop{T: t, lib: ibvmock.Load(t)}
	l.lib.Set("speed", 64) // a connection without an answer fails soon
	l.dev = must(verbstest.OpenLibrary(l.lib.NewDevice("mlx5_roce")))(t)
	t.Cleanup(func() { check(t, l.dev.Close()) })
	l.pd = must(l.dev.AllocPD())(t)
	l.cq = must(l.dev.CreateCQVector(16, nil, l.dev.CompVectors()-1))(t)
	l.qp = must(l.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: l.cq}))(t)
	peer := must(l.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: l.cq, Access: verbs.RemoteRead | verbs.RemoteWrite}))(t)
	check(t, errors.Join(l.qp.Connect(must(peer.Address())(t)), peer.Connect(must(l.qp.Address())(t))))
	return l
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// finish rings the doorbell and polls until the request that was posted last has completed.
func (l *loop) finish(err error) {
	l.Helper()
	check(l.T, errors.Join(err, l.qp.Ring()))
	wc := make([]verbs.WC, 1)
	waittest.Poll(l.T, "the request completes", func() bool { return must(l.cq.Poll(wc))(l.T) > 0 })
	check(l.T, wc[0].Err())
}

// TestMockDmabuf writes to memory that is not the program's, and reads from it. A file in memory stands for the other device's.
func TestMockDmabuf(t *testing.T) {
	l := newLoop(t)
	page := os.Getpagesize()
	fd := must(unix.MemfdCreate("dmabuf", unix.MFD_CLOEXEC))(t)
	file := os.NewFile(uintptr(fd), "dmabuf")
	defer file.Close()
	check(t, file.Truncate(int64(4*page)))
	const iova = 1 << 40
	offset, length := uint64(page)+64, uint64(2*page)
	far := must(l.pd.RegisterDmabuf(fd, offset, length, iova+64, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite))(t)
	buf := bytes.Repeat([]byte("0123456789abcdef"), 2*page/16)
	mr := must(l.pd.Register(buf, verbs.LocalWrite))(t)

	l.finish(l.qp.Write(1, verbs.Signaled, far.Remote(0), mr.SGE(0, 2*page)))
	got := make([]byte, 2*page)
	must(file.ReadAt(got, int64(offset)))(t)
	if !bytes.Equal(got, buf) {
		t.Error("the dma-buf does not have what was written")
	}
	must(file.WriteAt([]byte("changed"), int64(offset)+100))(t)
	l.finish(l.qp.Read(2, verbs.Signaled, far.Remote(100), mr.SGE(0, 7)))
	if string(buf[:7]) != "changed" {
		t.Errorf("read %q from the dma-buf", buf[:7])
	}
	check(t, far.Close())

	register := func(fd int) error {
		_, err := l.pd.RegisterDmabuf(fd, 0, 8, 0, verbs.LocalWrite)
		return err
	}
	if err := register(1 << 20); !errors.Is(err, verbs.ErrInvalid) || !errors.Is(err, syscall.EBADF) {
		t.Errorf("no such descriptor: %v, want ErrInvalid", err)
	}
	for errno, kind := range map[syscall.Errno]error{
		syscall.EOPNOTSUPP: verbs.ErrNotSupported, syscall.EINVAL: verbs.ErrInvalid, syscall.ENOMEM: verbs.ErrLimit,
		syscall.EAGAIN: verbs.ErrLimit, syscall.EPERM: verbs.ErrPermission,
	} {
		l.lib.Refuse("ibv_reg_dmabuf_mr", 0, 1, errno)
		if err := register(fd); !errors.Is(err, kind) || !strings.Contains(err.Error(), "ibv_reg_dmabuf_mr") {
			t.Errorf("%v: %v, want %v with the name of the call", errno, err, kind)
		}
	}
	check(t, register(fd))
}

// TestMockStack measures the stack on which the functions of the data path run. It must be one for C: the goroutine's would be
// too small. Then they use much of it.
func TestMockStack(t *testing.T) {
	const use, margin = 200 << 10, 192 << 10
	l := newLoop(t)
	mr := must(l.pd.Register(make([]byte, 64), verbs.LocalWrite|verbs.RemoteWrite))(t)
	measure := func() (before, room, used int64) {
		t.Helper()
		l.lib.Set("measure_stack", 1)
		for range 20 {
			l.finish(l.qp.Write(1, verbs.Signaled, mr.Remote(32), mr.SGE(0, 32)))
		}
		before, room, used = l.lib.Get("stack_before"), l.lib.Get("stack_room"), l.lib.Get("stack_used")
		t.Logf("%d bytes were in use before a call, %d left, %d used", before, room, used)
		return before, room, used
	}
	if before, room, used := measure(); used == 0 || before > 1<<10 || room-used < margin {
		t.Errorf("%d bytes were in use before a call, %d left, %d used", before, room, used)
	}
	l.lib.Set("stack", use)
	if _, room, used := measure(); used < use || used > use+16<<10 || used > room {
		t.Errorf("%d bytes of %d were used, want %d and what the mock uses itself", used, room, use)
	}
}
