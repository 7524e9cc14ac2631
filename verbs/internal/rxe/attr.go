package rxe

import (
	"encoding/binary"
	"fmt"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// Conversions between the structs of package ib and those of the kernel.

// be64 reads a number that the kernel holds in network order.
func be64(v uint64) uint64 {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], v)
	return binary.BigEndian.Uint64(b[:])
}

// firmware formats the version as rdma-core does.
func firmware(v uint64) string {
	return fmt.Sprintf("%d.%d.%d", v>>32&0xffff, v>>16&0xffff, v&0xffff)
}

func bool8(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func ahAttr(a *ib.AHAttr) abi.AHAttr {
	return abi.AHAttr{
		GRH: abi.GlobalRoute{DGID: a.DGID, FlowLabel: a.FlowLabel, SGIDIndex: a.SGIDIndex, HopLimit: a.HopLimit,
			TrafficClass: a.TrafficClass},
		DLID: a.DLID, SL: a.SL, SrcPathBits: a.SrcPathBits, StaticRate: a.StaticRate, IsGlobal: bool8(a.Global), PortNum: a.Port,
	}
}

func dest(a *ib.AHAttr) abi.QPDest {
	return abi.QPDest{
		DGID: a.DGID, FlowLabel: a.FlowLabel, DLID: a.DLID, SGIDIndex: a.SGIDIndex, HopLimit: a.HopLimit, TrafficClass: a.TrafficClass,
		SL: a.SL, SrcPathBits: a.SrcPathBits, StaticRate: a.StaticRate, IsGlobal: bool8(a.Global), PortNum: a.Port,
	}
}

func fromDest(d *abi.QPDest) ib.AHAttr {
	return ib.AHAttr{
		DGID: d.DGID, FlowLabel: d.FlowLabel, DLID: d.DLID, SGIDIndex: d.SGIDIndex, HopLimit: d.HopLimit, TrafficClass: d.TrafficClass,
		SL: d.SL, SrcPathBits: d.SrcPathBits, StaticRate: d.StaticRate, Global: d.IsGlobal != 0, Port: d.PortNum,
	}
}

// modifyCommand returns the command MODIFY_QP.
func modifyCommand(handle uint32, a *ib.QPAttr, mask uint32) abi.ModifyQP {
	return abi.ModifyQP{
		Dest: dest(&a.AH), AltDest: dest(&a.AltAH), QPHandle: handle, AttrMask: mask, QKey: a.QKey, RQPSN: a.RQPSN, SQPSN: a.SQPSN,
		DestQPNum: a.DestQPN, QPAccessFlags: a.Access, PKeyIndex: a.PKeyIndex, AltPKeyIndex: a.AltPKey, QPState: a.State,
		CurQPState: a.CurState, PathMTU: a.PathMTU, PathMigState: a.PathMigState, EnSQDAsyncNotify: bool8(a.EnSQDAsyncNotify),
		MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic, MinRNRTimer: a.MinRNRTimer, PortNum: a.Port, Timeout: a.Timeout,
		RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry, AltPortNum: a.AltPort, AltTimeout: a.AltTimeout,
	}
}

// fromQuery converts the reply to QUERY_QP.
func fromQuery(r *abi.QueryQPResp) ib.QPAttr {
	return ib.QPAttr{
		State: r.QPState, CurState: r.CurQPState, PathMTU: r.PathMTU, PathMigState: r.PathMigState, QKey: r.QKey, RQPSN: r.RQPSN,
		SQPSN: r.SQPSN, DestQPN: r.DestQPNum, Access: r.QPAccessFlags,
		Cap: ib.Cap{SendWR: r.MaxSendWR, RecvWR: r.MaxRecvWR, SendSGE: r.MaxSendSGE, RecvSGE: r.MaxRecvSGE, Inline: r.MaxInlineData},
		AH:  fromDest(&r.Dest), AltAH: fromDest(&r.AltDest), PKeyIndex: r.PKeyIndex, AltPKey: r.AltPKeyIndex,
		SQDraining:  r.SQDraining != 0,
		MaxRdAtomic: r.MaxRdAtomic, MaxDestRdAtomic: r.MaxDestRdAtomic, MinRNRTimer: r.MinRNRTimer, Port: r.PortNum,
		AltPort: r.AltPortNum,
		Timeout: r.Timeout, AltTimeout: r.AltTimeout, RetryCnt: r.RetryCnt, RNRRetry: r.RNRRetry, SignalAll: r.SQSigAll != 0,
	}
}
