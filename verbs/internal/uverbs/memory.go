package uverbs

import (
	"errors"
	"syscall"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

// AllocPD makes a protection domain and returns its handle.
func (c *Context) AllocPD(d Driver) (uint32, error) {
	var resp abi.AllocPDResp
	err := call(c, abi.CmdAllocPD, &abi.AllocPD{}, &resp, d)
	return resp.PDHandle, err
}

// DeallocPD destroys a protection domain. EBUSY says that something in it is left.
func (c *Context) DeallocPD(pd uint32) error {
	return run(c, abi.CmdDeallocPD, &abi.DeallocPD{PDHandle: pd})
}

// RegMR registers memory. It must not move or be freed before DeregMR. Too low a limit on locked memory is a [MemlockError].
func (c *Context) RegMR(in abi.RegMR, d Driver) (abi.RegMRResp, error) {
	var resp abi.RegMRResp
	err := call(c, abi.CmdRegMR, &in, &resp, d)
	return resp, explainMemory(err, in.Start, in.Length)
}

// ReregMR changes what in.Flags names of a memory region. The keys may change. After an error the region is as it was, or, when
// the driver could not go back, only DeregMR is left to do.
func (c *Context) ReregMR(in abi.ReregMR, d Driver) (abi.ReregMRResp, error) {
	var resp abi.ReregMRResp
	err := call(c, abi.CmdReregMR, &in, &resp, d)
	return resp, explainMemory(err, in.Start, in.Length)
}

// DeregMR ends a registration. EBUSY says that a memory window is bound to it.
func (c *Context) DeregMR(mr uint32) error {
	return run(c, abi.CmdDeregMR, &abi.DeregMR{MRHandle: mr})
}

// AllocMW makes a memory window. EOPNOTSUPP says that the device has none.
func (c *Context) AllocMW(in abi.AllocMW, d Driver) (abi.AllocMWResp, error) {
	var resp abi.AllocMWResp
	err := call(c, abi.CmdAllocMW, &in, &resp, d)
	return resp, err
}

// DeallocMW destroys a memory window.
func (c *Context) DeallocMW(mw uint32) error {
	return run(c, abi.CmdDeallocMW, &abi.DeallocMW{MWHandle: mw})
}

// Memlock tells that length bytes at start can go over the limit on locked memory, or returns nil: for those who learn of an
// ENOMEM in another way.
func Memlock(start, length uint64) *MemlockError { return memlock(start, length) }

// explainMemory replaces an ENOMEM by a MemlockError where the limit is the reason.
func explainMemory(err error, start, length uint64) error {
	var e *Error
	if errors.Is(err, syscall.ENOMEM) && errors.As(err, &e) {
		if m := memlock(start, length); m != nil {
			e.Err = m
		}
	}
	return err
}
