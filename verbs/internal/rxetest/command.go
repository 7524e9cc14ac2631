//go:build unix

package rxetest

import (
	"encoding/binary"
	"syscall"

	"github.com/ibrun/ibrun/internal/abi/rxe"
	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

// Write runs a command.
func (k *Kernel) Write(_ int, command, resp []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	cmd := abi.Command(binary.NativeEndian.Uint32(command))
	if k.lost {
		return syscall.EIO
	}
	if err := k.fails[cmd]; err != nil {
		return err
	}
	in := command[8:]
	switch cmd {
	case abi.CmdGetContext, abi.CmdCreateCompChannel:
		return k.newDescriptor(cmd, resp)
	case abi.CmdQueryDevice:
		return encode(resp, abi.QueryDeviceResp{MaxMRSize: 1 << 40, MaxQP: 100, MaxQPWR: MaxQPWR, MaxSGE: 32, MaxCQ: 100,
			MaxCQE: MaxCQE, MaxMR: 100, MaxPD: 100, MaxQPRdAtom: 16, MaxQPInitRdAtom: 16, AtomicCap: 1,
			MaxAH: 100, MaxSRQ: 10, MaxSRQWR: 100,
			MaxSRQSGE: 27, PhysPortCnt: 1, MaxPkeys: 1})
	case abi.CmdQueryPort:
		return encode(resp, abi.QueryPortResp{State: 4, MaxMTU: 5, ActiveMTU: 3, MaxMsgSz: 8 << 20, GIDTblLen: 1024,
			PKeyTblLen: 1, LinkLayer: 2})
	case abi.CmdAllocPD:
		return encode(resp, abi.AllocPDResp{PDHandle: k.newHandle("PD")})
	case abi.CmdRegMR:
		c, err := readInput[abi.RegMR](in)
		if err != nil {
			return err
		}
		if c.AccessFlags&k.refusedAccess != 0 {
			k.refusedRegs++
			return syscall.EINVAL
		}
		h := k.newHandle("MR")
		return encode(resp, abi.RegMRResp{MRHandle: h, LKey: h << 8, RKey: h << 8})
	case abi.CmdReregMR:
		return syscall.EOPNOTSUPP
	case abi.CmdAllocMW:
		h := k.newHandle("MW")
		return encode(resp, abi.AllocMWResp{MWHandle: h, RKey: h << 8})
	case abi.CmdCreateAH:
		h := k.newHandle("AH")
		return encodeAll(resp, abi.CreateAHResp{AHHandle: h}, rxe.CreateAHResp{AHNum: h})
	case abi.CmdCreateCQ, abi.CmdCreateQP, abi.CmdCreateSRQ, abi.CmdResizeCQ, abi.CmdModifySRQ:
		return k.queueCommand(cmd, in, resp)
	case abi.CmdModifyQP, abi.CmdQueryQP, abi.CmdPostSend:
		return k.qpCommand(cmd, in, resp)
	case abi.CmdReqNotifyCQ:
		return k.notify(in)
	case abi.CmdDeallocPD, abi.CmdDeregMR, abi.CmdDeallocMW, abi.CmdDestroyAH:
		return k.destroy(binary.NativeEndian.Uint32(in))
	case abi.CmdDestroyCQ, abi.CmdDestroyQP, abi.CmdDestroySRQ:
		return k.destroy(binary.NativeEndian.Uint32(in[8:]))
	case abi.CmdAttachMcast, abi.CmdDetachMcast:
		return nil
	}
	return syscall.ENOSYS
}

// encode writes the response of a command.
func encode(resp []byte, v any) error { return encodeAll(resp, v) }

// encodeAll writes a response that consists of several structs.
func encodeAll(resp []byte, vs ...any) error {
	for _, v := range vs {
		n, err := binary.Encode(resp, binary.NativeEndian, v)
		if err != nil {
			return syscall.ENOSPC
		}
		resp = resp[n:]
	}
	return nil
}

// readInput decodes the input of a command.
func readInput[T any](in []byte) (v T, err error) {
	if _, err := binary.Decode(in, binary.NativeEndian, &v); err != nil {
		return v, syscall.EINVAL
	}
	return v, nil
}

// newDescriptor runs commands that create a descriptor.
func (k *Kernel) newDescriptor(cmd abi.Command, resp []byte) error {
	p, err := k.pipe()
	if err != nil {
		return err
	}
	if cmd == abi.CmdGetContext {
		k.async = p
		return encode(resp, abi.GetContextResp{AsyncFD: uint32(p.read), NumCompVectors: CompVectors})
	}
	return encode(resp, abi.CreateCompChannelResp{FD: uint32(p.read)})
}

func (k *Kernel) destroy(handle uint32) error {
	if k.kinds[handle] == "" {
		return syscall.EINVAL
	}
	delete(k.kinds, handle)
	delete(k.cqs, handle)
	delete(k.qps, handle)
	delete(k.rqs, handle)
	return nil
}

// queueCommand runs commands that create rings.
func (k *Kernel) queueCommand(cmd abi.Command, in, resp []byte) error {
	switch cmd {
	case abi.CmdCreateCQ:
		c, err := readInput[abi.CreateCQ](in)
		if err != nil {
			return err
		}
		r, at, err := k.newRing(int(c.CQE), wcSlot)
		if err != nil {
			return err
		}
		h := k.newHandle("CQ")
		k.cqs[h] = &cq{token: c.UserHandle, vector: int(c.CompVector), ring: r, events: k.pipes[int(c.CompChannel)]}
		return encodeAll(resp, abi.CreateCQResp{CQHandle: h, CQE: r.mask}, rxe.CreateCQResp{MI: at})
	case abi.CmdResizeCQ:
		c, err := readInput[abi.ResizeCQ](in)
		if err != nil {
			return err
		}
		r, at, err := k.newRing(int(c.CQE), wcSlot)
		if err != nil {
			return err
		}
		k.cqs[c.CQHandle].ring.moveTo(&r)
		k.cqs[c.CQHandle].ring = r
		return encodeAll(resp, abi.ResizeCQResp{CQE: r.mask}, rxe.ResizeCQResp{MI: at})
	case abi.CmdCreateSRQ:
		c, err := readInput[abi.CreateSRQ](in)
		if err != nil {
			return err
		}
		r, at, err := k.newRing(int(c.MaxWR), recvSlot)
		if err != nil {
			return err
		}
		h := k.newHandle("SRQ")
		k.rqs[h] = &r
		return encodeAll(resp, abi.CreateSRQResp{SRQHandle: h, MaxWR: r.mask, MaxSGE: c.MaxSGE}, rxe.CreateSRQResp{MI: at, SRQNum: h})
	case abi.CmdModifySRQ:
		return nil
	}
	return k.createQP(in, resp)
}

func (k *Kernel) createQP(in, resp []byte) error {
	c, err := readInput[abi.CreateQP](in)
	if err != nil {
		return err
	}
	q := &qp{token: c.UserHandle, scq: k.cqs[c.SendCQHandle], rcq: k.cqs[c.RecvCQHandle], signalAll: c.SQSigAll != 0}
	var at rxe.CreateQPResp
	if q.send, at.SQ, err = k.newRing(int(c.MaxSendWR), sendSlot); err != nil {
		return err
	}
	if c.IsSRQ != 0 {
		q.recv = k.rqs[c.SRQHandle]
	} else {
		var r ring
		if r, at.RQ, err = k.newRing(int(c.MaxRecvWR), recvSlot); err != nil {
			return err
		}
		q.recv = &r
	}
	h := k.newHandle("QP")
	q.num = h
	k.qps[h] = q
	return encodeAll(resp, abi.CreateQPResp{QPHandle: h, QPN: h, MaxSendWR: c.MaxSendWR, MaxRecvWR: c.MaxRecvWR,
		MaxSendSGE: c.MaxSendSGE, MaxRecvSGE: c.MaxRecvSGE, MaxInlineData: c.MaxInlineData}, at)
}

func (k *Kernel) qpCommand(cmd abi.Command, in, resp []byte) error {
	switch cmd {
	case abi.CmdModifyQP:
		c, err := readInput[abi.ModifyQP](in)
		q := k.qps[c.QPHandle]
		if err != nil || q == nil {
			return syscall.EINVAL
		}
		if abi.QPAttrMask(c.AttrMask)&abi.QPAttrState != 0 {
			q.state = c.QPState
		}
		if abi.QPAttrMask(c.AttrMask)&abi.QPAttrDestQPN != 0 {
			q.peer = c.DestQPNum
		}
		if q.state == uint8(abi.QPSErr) {
			k.drainSendQueue(q)
		}
		return nil
	case abi.CmdQueryQP:
		c, err := readInput[abi.QueryQP](in)
		q := k.qps[c.QPHandle]
		if err != nil || q == nil {
			return syscall.EINVAL
		}
		return encode(resp, abi.QueryQPResp{QPState: q.state, CurQPState: q.state, DestQPNum: q.peer})
	}
	c, err := readInput[abi.PostSend](in)
	q := k.qps[c.QPHandle]
	if err != nil || q == nil {
		return syscall.EINVAL
	}
	if !k.doorbellsHeld {
		k.drainSendQueue(q)
	}
	return nil
}

func (k *Kernel) notify(in []byte) error {
	c, err := readInput[abi.ReqNotifyCQ](in)
	q := k.cqs[c.CQHandle]
	if err != nil || q == nil {
		return syscall.EINVAL
	}
	q.armed, q.solicited = true, c.SolicitedOnly != 0
	return nil
}

// drainSendQueue completes what is in a send queue.
func (k *Kernel) drainSendQueue(q *qp) {
	ok := q.state == uint8(abi.QPSRTS)
	for {
		slot := q.send.consume()
		if slot == nil {
			return
		}
		w, err := readInput[rxe.SendWR](slot)
		if err != nil {
			return
		}
		op, flags := abi.WROpcode(w.Opcode), abi.SendFlags(w.SendFlags)
		wc := completion{ID: w.WRID, QPN: q.num, Status: uint32(abi.WCWRFlushErr)}
		if ok {
			wc.Status, wc.Opcode = uint32(abi.WCSuccess), uint32(opcodes[op])
		}
		if op == abi.WRSend && ok {
			k.deliver(q, flags&abi.SendSolicited != 0)
		}
		if flags&abi.SendSignaled != 0 || q.signalAll || !ok {
			k.complete(q.scq, wc, !ok)
		}
	}
}

var opcodes = map[abi.WROpcode]abi.WCOpcode{abi.WRSend: abi.WCSend, abi.WRRDMAWrite: abi.WCRDMAWrite,
	abi.WRRDMARead:        abi.WCRDMARead,
	abi.WRAtomicCmpAndSwp: abi.WCCompSwap, abi.WRAtomicFetchAndAdd: abi.WCFetchAdd, abi.WRBindMW: abi.WCBindMW,
	abi.WRLocalInv: abi.WCLocalInv}

// deliver completes a receive of the queue pair to which q is connected.
func (k *Kernel) deliver(q *qp, solicited bool) {
	to := k.qps[q.peer]
	if to == nil {
		return
	}
	if slot := to.recv.consume(); slot != nil {
		k.complete(to.rcq, completion{ID: binary.NativeEndian.Uint64(slot), QPN: to.num, Opcode: uint32(abi.WCRecv)}, solicited)
	}
}

// complete writes a completion into its queue, and sends an event to the channel.
func (k *Kernel) complete(c *cq, wc completion, solicited bool) {
	slot := c.ring.produce()
	if slot == nil {
		k.raiseLocked(abi.EventCQErr, c.token)
		return
	}
	binary.Encode(slot, binary.NativeEndian, wc)
	c.ring.produced()
	if c.armed && (solicited || !c.solicited) {
		c.armed = false
		c.events.send(binary.NativeEndian.AppendUint64(nil, c.token))
	}
}
