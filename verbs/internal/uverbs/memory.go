package uverbs

import (
	"errors"
	"syscall"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

// AllocPD allocates a protection domain and returns its handle.
func (c *Context) AllocPD(d Driver) (uint32, error) {
	var resp abi.AllocPDResp
	err := call(c, abi.CmdAllocPD, &abi.AllocPD{}, &resp, d)
	return resp.PDHandle, err
}

// DeallocPD deallocates a protection domain. The error EBUSY means that an object in it still exists.
func (c *Context) DeallocPD(pd uint32) error {
	return run(c, abi.CmdDeallocPD, &abi.DeallocPD{PDHandle: pd})
}

// RegMR registers memory. It must not move or be freed before DeregMR. If the limit on locked memory is too low, the error is
// a [MemlockError].
func (c *Context) RegMR(in abi.RegMR, d Driver) (abi.RegMRResp, error) {
	var resp abi.RegMRResp
	err := call(c, abi.CmdRegMR, &in, &resp, d)
	return resp, explainMemory(err, in.Start, in.Length)
}

// ReregMR changes the attributes of a memory region that in.Flags selects. The keys may change. After an error the region is
// unchanged, or, if the driver could not restore it, can only be deregistered.
func (c *Context) ReregMR(in abi.ReregMR, d Driver) (abi.ReregMRResp, error) {
	var resp abi.ReregMRResp
	err := call(c, abi.CmdReregMR, &in, &resp, d)
	return resp, explainMemory(err, in.Start, in.Length)
}

// DeregMR ends a registration. The error EBUSY means that a memory window is bound to the region.
func (c *Context) DeregMR(mr uint32) error {
	return run(c, abi.CmdDeregMR, &abi.DeregMR{MRHandle: mr})
}

// AllocMW allocates a memory window. The error EOPNOTSUPP means that the device has none.
func (c *Context) AllocMW(in abi.AllocMW, d Driver) (abi.AllocMWResp, error) {
	var resp abi.AllocMWResp
	err := call(c, abi.CmdAllocMW, &in, &resp, d)
	return resp, err
}

// DeallocMW deallocates a memory window.
func (c *Context) DeallocMW(mw uint32) error {
	return run(c, abi.CmdDeallocMW, &abi.DeallocMW{MWHandle: mw})
}

// Memlock returns a MemlockError if registering length bytes at start can exceed the limit on locked memory, or nil. It is for
// callers that get ENOMEM from another source.
func Memlock(start, length uint64) *MemlockError { return memlock(start, length) }

// explainMemory replaces ENOMEM by a MemlockError if the limit on locked memory is the reason.
func explainMemory(err error, start, length uint64) error {
	var e *Error
	if errors.Is(err, syscall.ENOMEM) && errors.As(err, &e) {
		if m := memlock(start, length); m != nil {
			e.Err = m
		}
	}
	return err
}
