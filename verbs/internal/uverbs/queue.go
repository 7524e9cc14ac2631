package uverbs

import (
	"encoding/binary"
	"errors"
	"syscall"
	"time"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

// CreateCompChannel creates a completion channel and returns its descriptor, from which events are read, one per read, for
// [DecodeCompEvent]. The descriptor is non-blocking and closed on exec. The caller must close it with CloseCompChannel after its
// queues.
func (c *Context) CreateCompChannel() (fd int, err error) {
	var resp abi.CreateCompChannelResp
	if err := call(c, abi.CmdCreateCompChannel, &abi.CreateCompChannel{}, &resp, Driver{}); err != nil {
		return -1, err
	}
	fd = int(int32(resp.FD))
	if err := c.kernel.SetNonblock(fd); err != nil {
		c.kernel.Close(fd)
		return -1, c.fail("make the channel non-blocking", err)
	}
	return fd, nil
}

// CloseCompChannel closes the descriptor of a completion channel.
func (c *Context) CloseCompChannel(fd int) error {
	if err := c.kernel.Close(fd); err != nil {
		return c.fail("close a completion channel", err)
	}
	return nil
}

// CreateCQ creates a completion queue. CompChannel is the channel's descriptor, or -1 for none.
func (c *Context) CreateCQ(in abi.CreateCQ, d Driver) (abi.CreateCQResp, error) {
	var resp abi.CreateCQResp
	err := call(c, abi.CmdCreateCQ, &in, &resp, d)
	return resp, err
}

// ResizeCQ changes the capacity of a completion queue to at least n and returns the new capacity.
func (c *Context) ResizeCQ(cq, n uint32, d Driver) (uint32, error) {
	var resp abi.ResizeCQResp
	err := call(c, abi.CmdResizeCQ, &abi.ResizeCQ{CQHandle: cq, CQE: n}, &resp, d)
	return resp.CQE, err
}

// DestroyCQ destroys a completion queue, and returns how many events were delivered for it in total. The error EBUSY means that a
// queue pair uses it.
func (c *Context) DestroyCQ(cq uint32) (abi.DestroyCQResp, error) {
	var resp abi.DestroyCQResp
	err := call(c, abi.CmdDestroyCQ, &abi.DestroyCQ{CQHandle: cq}, &resp, Driver{})
	return resp, err
}

// CreateQP creates a queue pair. The response contains the granted sizes.
func (c *Context) CreateQP(in abi.CreateQP, d Driver) (abi.CreateQPResp, error) {
	var resp abi.CreateQPResp
	err := call(c, abi.CmdCreateQP, &in, &resp, d)
	return resp, err
}

// ModifyQP changes the attributes of a queue pair that in.AttrMask selects. It may block until the address of a neighbour is
// resolved.
func (c *Context) ModifyQP(in abi.ModifyQP) error { return run(c, abi.CmdModifyQP, &in) }

// QueryQP returns the attributes of a queue pair that the mask, of abi.QPAttrMask, selects.
func (c *Context) QueryQP(qp, mask uint32) (abi.QueryQPResp, error) {
	var resp abi.QueryQPResp
	err := call(c, abi.CmdQueryQP, &abi.QueryQP{QPHandle: qp, AttrMask: mask}, &resp, Driver{})
	return resp, err
}

// DestroyQP destroys a queue pair, and returns how many asynchronous events were delivered for it in total. The error EBUSY means
// that it is attached to a multicast group. The kernel also returns EBUSY while a doorbell for the pair is in progress
// (rdma_core.c, uverbs_try_lock_object), which ends soon. So while other calls are in progress DestroyQP retries, for at most a
// quarter of a second.
func (c *Context) DestroyQP(qp uint32) (events uint32, err error) {
	const maxPause = 128 * time.Millisecond
	for pause := time.Microsecond; ; pause *= 2 {
		alone := c.calls.Load()&^closing <= 1 // loaded first: calls that begin later are not for this pair
		var resp abi.DestroyQPResp
		err = call(c, abi.CmdDestroyQP, &abi.DestroyQP{QPHandle: qp}, &resp, Driver{})
		if alone || pause > maxPause || !errors.Is(err, syscall.EBUSY) {
			return resp.EventsReported, err
		}
		time.Sleep(pause)
	}
}

// AttachMcast makes a queue pair of type UD receive datagrams to a multicast group.
func (c *Context) AttachMcast(qp uint32, gid [16]byte, lid uint16) error {
	return run(c, abi.CmdAttachMcast, &abi.AttachMcast{GID: gid, QPHandle: qp, MLID: lid})
}

// DetachMcast ends AttachMcast.
func (c *Context) DetachMcast(qp uint32, gid [16]byte, lid uint16) error {
	return run(c, abi.CmdDetachMcast, &abi.DetachMcast{GID: gid, QPHandle: qp, MLID: lid})
}

// CreateSRQ creates a shared receive queue.
func (c *Context) CreateSRQ(in abi.CreateSRQ, d Driver) (abi.CreateSRQResp, error) {
	var resp abi.CreateSRQResp
	err := call(c, abi.CmdCreateSRQ, &in, &resp, d)
	return resp, err
}

// ModifySRQ changes the size or the limit of a shared receive queue, as in.AttrMask selects. This command has no response of its
// own. If driverResp is not empty, the driver's input is the address of as much memory, as rxe expects, and what the driver
// writes there is copied to driverResp.
func (c *Context) ModifySRQ(in abi.ModifySRQ, driverResp []byte) error {
	const core = headerBytes + 16
	if len(driverResp) == 0 {
		return run(c, abi.CmdModifySRQ, &in)
	}
	const n = core + 8
	mem := make([]byte, n+len(driverResp))
	frame, resp := mem[:n:n], mem[n:]
	header(frame, abi.CmdModifySRQ, n/4, 0)
	copy(frame[headerBytes:], BytesOf(&in))
	binary.NativeEndian.PutUint64(frame[core:], address(resp))
	if err := c.send(abi.CmdModifySRQ, frame, resp); err != nil {
		return err
	}
	copy(driverResp, resp)
	return nil
}

// QuerySRQ returns the attributes of a shared receive queue.
func (c *Context) QuerySRQ(srq uint32) (abi.QuerySRQResp, error) {
	var resp abi.QuerySRQResp
	err := call(c, abi.CmdQuerySRQ, &abi.QuerySRQ{SRQHandle: srq}, &resp, Driver{})
	return resp, err
}

// DestroySRQ destroys a shared receive queue, and returns how many asynchronous events were delivered for it in total. The error
// EBUSY means that a queue pair uses it.
func (c *Context) DestroySRQ(srq uint32) (events uint32, err error) {
	var resp abi.DestroySRQResp
	err = call(c, abi.CmdDestroySRQ, &abi.DestroySRQ{SRQHandle: srq}, &resp, Driver{})
	return resp.EventsReported, err
}

// CreateAH creates an address handle and returns the handle for DestroyAH. The driver's response contains the number by which
// datagrams name the address. CreateAH may block until the address of a neighbour is resolved.
func (c *Context) CreateAH(in abi.CreateAH, d Driver) (uint32, error) {
	var resp abi.CreateAHResp
	err := call(c, abi.CmdCreateAH, &in, &resp, d)
	return resp.AHHandle, err
}

// DestroyAH destroys an address handle.
func (c *Context) DestroyAH(ah uint32) error {
	return run(c, abi.CmdDestroyAH, &abi.DestroyAH{AHHandle: ah})
}
