//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// addressVector returns a struct ibv_ah_attr.
func addressVector(a ib.AHAttr) ibv.AHAttr {
	return ibv.AHAttr{
		GRH: ibv.GlobalRoute{
			DGID: a.DGID, FlowLabel: a.FlowLabel, SGIDIndex: a.SGIDIndex, HopLimit: a.HopLimit, TrafficClass: a.TrafficClass,
		},
		DLID: a.DLID, SL: a.SL, SrcPathBits: a.SrcPathBits, StaticRate: a.StaticRate,
		IsGlobal: bool8(a.Global), PortNum: a.Port,
	}
}

func fromAddressVector(a *ibv.AHAttr) ib.AHAttr {
	return ib.AHAttr{
		DGID: a.GRH.DGID, FlowLabel: a.GRH.FlowLabel, SGIDIndex: a.GRH.SGIDIndex, HopLimit: a.GRH.HopLimit,
		TrafficClass: a.GRH.TrafficClass, Global: a.IsGlobal != 0,
		DLID: a.DLID, SL: a.SL, SrcPathBits: a.SrcPathBits, StaticRate: a.StaticRate, Port: a.PortNum,
	}
}

func queueCap(c ib.Cap) ibv.QPCap {
	return ibv.QPCap{
		MaxSendWR: c.SendWR, MaxRecvWR: c.RecvWR, MaxSendSGE: c.SendSGE, MaxRecvSGE: c.RecvSGE, MaxInlineData: c.Inline,
	}
}

func fromQueueCap(c *ibv.QPCap) ib.Cap {
	return ib.Cap{
		SendWR: c.MaxSendWR, RecvWR: c.MaxRecvWR, SendSGE: c.MaxSendSGE, RecvSGE: c.MaxRecvSGE, Inline: c.MaxInlineData,
	}
}

// attributes returns a struct ibv_qp_attr.
func attributes(a *ib.QPAttr) *ibv.QPAttr {
	return &ibv.QPAttr{
		QPState: uint32(a.State), CurQPState: uint32(a.CurState), PathMTU: uint32(a.PathMTU), PathMigState: uint32(a.PathMigState),
		QKey: a.QKey, RQPSN: a.RQPSN, SQPSN: a.SQPSN, DestQPNum: a.DestQPN, QPAccessFlags: a.Access,
		Cap: queueCap(a.Cap), AHAttr: addressVector(a.AH), AltAHAttr: addressVector(a.AltAH),
		PKeyIndex: a.PKeyIndex, AltPKeyIndex: a.AltPKey,
		EnSQDAsyncNotify: bool8(a.EnSQDAsyncNotify), SQDraining: bool8(a.SQDraining),
		MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic, MinRNRTimer: a.MinRNRTimer,
		PortNum: a.Port, Timeout: a.Timeout, RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry,
		AltPortNum: a.AltPort, AltTimeout: a.AltTimeout,
	}
}

func fromAttributes(a *ibv.QPAttr) ib.QPAttr {
	return ib.QPAttr{
		State: uint8(a.QPState), CurState: uint8(a.CurQPState), PathMTU: uint8(a.PathMTU), PathMigState: uint8(a.PathMigState),
		QKey: a.QKey, RQPSN: a.RQPSN, SQPSN: a.SQPSN, DestQPN: a.DestQPNum, Access: a.QPAccessFlags,
		Cap: fromQueueCap(&a.Cap), AH: fromAddressVector(&a.AHAttr), AltAH: fromAddressVector(&a.AltAHAttr),
		PKeyIndex: a.PKeyIndex, AltPKey: a.AltPKeyIndex,
		EnSQDAsyncNotify: a.EnSQDAsyncNotify != 0, SQDraining: a.SQDraining != 0,
		MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic, MinRNRTimer: a.MinRNRTimer,
		Port: a.PortNum, AltPort: a.AltPortNum, Timeout: a.Timeout, AltTimeout: a.AltTimeout,
		RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry,
	}
}

func bool8(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
