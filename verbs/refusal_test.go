//go:build linux

package verbs_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/internal/opener"
	"github.com/ibrun/ibrun/verbs/internal/rxe"
	"github.com/ibrun/ibrun/verbs/internal/rxetest"
)

// refusedCommands are those that the provider for rxe gives the kernel.
var refusedCommands = []abi.Command{
	abi.CmdGetContext, abi.CmdQueryDevice, abi.CmdQueryPort, abi.CmdAllocPD, abi.CmdDeallocPD, abi.CmdCreateAH, abi.CmdDestroyAH,
	abi.CmdRegMR, abi.CmdReregMR, abi.CmdDeregMR, abi.CmdAllocMW, abi.CmdDeallocMW, abi.CmdCreateCompChannel, abi.CmdCreateCQ,
	abi.CmdResizeCQ, abi.CmdDestroyCQ, abi.CmdReqNotifyCQ, abi.CmdCreateQP, abi.CmdQueryQP, abi.CmdModifyQP, abi.CmdDestroyQP,
	abi.CmdPostSend, abi.CmdAttachMcast, abi.CmdDetachMcast, abi.CmdCreateSRQ, abi.CmdModifySRQ, abi.CmdDestroySRQ,
}

// releasing are the commands of them that release an object.
var releasing = []abi.Command{abi.CmdDeallocPD, abi.CmdDestroyAH, abi.CmdDeregMR, abi.CmdDeallocMW, abi.CmdDestroyCQ,
	abi.CmdDestroyQP, abi.CmdDestroySRQ}

// TestKernelRefusals makes the kernel refuse each command with each error. The call returns an error that names the command, the
// device and the error of the kernel. Once the command succeeds again, everything can be closed.
func TestKernelRefusals(t *testing.T) {
	for _, cmd := range refusedCommands {
		for _, errno := range ibvmock.Errnos() {
			if cmd == abi.CmdReregMR && errno == syscall.EOPNOTSUPP {
				continue // the simulated kernel always returns it
			}
			t.Run(fmt.Sprintf("%v with %v", cmd, errno), func(t *testing.T) {
				k := rxetest.New()
				k.Fail(cmd, errno)
				var l life
				err := l.run(k)
				err = errors.Join(err, l.closeObjects())
				release := slices.Contains(releasing, cmd)
				var e *verbs.Error
				switch {
				case release && errno == syscall.EIO: // a device that was removed has released everything
					must(t, err)
				case !errors.As(err, &e) || e.Device != "rxe0" || !errors.Is(err, errno) || !strings.Contains(err.Error(), cmd.String()):
					t.Errorf("got %v", err)
				}
				k.Fail(cmd, nil)
				must(t, l.closeObjects())
				if l.dev != nil {
					must(t, l.dev.Close())
				}
				// What the kernel refuses to release, it releases with the device, unless Close is to be tried again.
				if open := k.OpenObjects(); open != "" && (!release || errno == syscall.EBUSY) {
					t.Errorf("still open: %s", open)
				}
			})
		}
	}
}

// life uses each command of the kernel, and keeps what is to be closed.
type life struct {
	dev    *verbs.Context
	opened []interface{ Close() error } // users last
	pd     *verbs.PD
	mr     *verbs.MR
	ah     *verbs.AH
	cq     *verbs.CQ
	q      *verbs.QP
	ch     *verbs.Channel
	srq    *verbs.SRQ
	mw     *verbs.MW
}

// keep stores what a call has created, unless it has failed.
func keep[T interface{ Close() error }](l *life, where *T, created T, err error) error {
	if err == nil {
		*where, l.opened = created, append(l.opened, created)
	}
	return err
}

// closeObjects closes everything but the device, users first, and returns all errors.
func (l *life) closeObjects() error {
	var errs []error
	for _, c := range slices.Backward(l.opened) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// run returns the first error.
func (l *life) run(k *rxetest.Kernel) (err error) {
	if l.dev, err = opener.Open(rxe.On(k), k.Device()); err != nil {
		return err
	}
	group := netip.MustParseAddr("ff0e::1")
	for _, step := range []func() error{
		func() error { _, err := l.dev.QueryPort(1); return err },
		func() error { pd, err := l.dev.AllocPD(); return keep(l, &l.pd, pd, err) },
		func() error {
			mr, err := l.pd.Register(make([]byte, 4096), verbs.LocalWrite)
			return keep(l, &l.mr, mr, err)
		},
		l.changeMR,
		func() error { mw, err := l.pd.AllocMW(verbs.MWType1); return keep(l, &l.mw, mw, err) },
		func() error { ah, err := l.pd.CreateAH(verbs.AHAttr{}); return keep(l, &l.ah, ah, err) },
		func() error { ch, err := l.dev.CreateChannel(); return keep(l, &l.ch, ch, err) },
		func() error { cq, err := l.dev.CreateCQ(16, l.ch); return keep(l, &l.cq, cq, err) },
		func() error {
			srq, err := l.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 8})
			return keep(l, &l.srq, srq, err)
		},
		func() error {
			q, err := l.pd.CreateQP(verbs.QPConfig{Type: verbs.UD, SendCQ: l.cq, SRQ: l.srq})
			return keep(l, &l.q, q, err)
		},
		func() error { return l.cq.Resize(32) },
		func() error { return l.srq.SetLimit(1) },
		func() error { return l.q.Start() },
		func() error { _, err := l.q.State(); return err },
		func() error { return l.cq.Notify(false) },
		func() error { return l.q.SendTo(1, verbs.RingDoorbell, verbs.Dest{AH: l.ah}, l.mr.SGE(0, 8)) },
		func() error { return l.q.AttachMulticast(group, 0) },
		func() error { return l.q.DetachMulticast(group, 0) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// changeMR changes the memory region, unless the simulated kernel does not support it.
func (l *life) changeMR() error {
	if err := l.mr.SetAccess(verbs.LocalWrite | verbs.RemoteRead); !errors.Is(err, syscall.EOPNOTSUPP) {
		return err
	}
	return nil
}
