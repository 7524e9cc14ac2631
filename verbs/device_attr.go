package verbs

import (
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// DeviceAttr are a device's limits. The names are those of struct ibv_device_attr, the sizes are in bytes.
type DeviceAttr struct {
	FirmwareVersion                                         string
	NodeGUID, SysImageGUID                                  uint64 // big-endian, read as a number
	MaxMRSize, PageSizeCap                                  uint64
	VendorID, VendorPartID, HWVersion                       uint32
	MaxQP, MaxQPWR                                          uint32
	DeviceCapFlags                                          uint32
	MaxSGE, MaxSGERd, MaxCQ, MaxCQE, MaxMR, MaxPD           uint32
	MaxQPRdAtom, MaxResRdAtom, MaxQPInitRdAtom              uint32
	AtomicCap                                               uint32 // 0 none, 1 atomic among themselves, 2 with the CPU
	MaxMW, MaxMcastGrp, MaxMcastQPAttach, MaxTotMcastAttach uint32
	MaxAH, MaxSRQ, MaxSRQWR, MaxSRQSGE                      uint32
	MaxInline                                               uint32 // 0 if the device does not report it
	MaxPKeys                                                uint16
	LocalCAAckDelay                                         uint8
	Ports                                                   uint8
}

// PortAttr are the attributes of a port. The names are those of struct ibv_port_attr, the sizes are in bytes.
type PortAttr struct {
	State                        PortState
	MaxMTU, ActiveMTU            MTU
	CapFlags, MaxMsgSize         uint32
	BadPKey, QKeyViolations      uint32
	GIDTableLen                  uint32
	PKeyTableLen                 uint16
	LID, SMLID                   uint16 // InfiniBand only, as LMC and SMSL
	LMC, MaxVL, SMSL             uint8
	SubnetTimeout, InitTypeReply uint8
	ActiveWidth, ActiveSpeed     uint8
	PhysState, LinkLayer, Flags  uint8
}

// GRHRequired reports whether packets of the port need a global route header, also within the subnet. It is the flag
// IBV_QPF_GRH_REQUIRED, of virtual functions for example.
func (a *PortAttr) GRHRequired() bool {
	return uverbs.PortFlags(a.Flags)&uverbs.PortFlagGRHRequired != 0
}

// IsInfiniBand reports whether the port is one of an InfiniBand network.
func (a *PortAttr) IsInfiniBand() bool {
	return uverbs.LinkLayer(a.LinkLayer) == uverbs.LinkLayerInfiniBand
}

// portAttr converts attributes of package ib.
func portAttr(a ib.PortAttr) PortAttr {
	return PortAttr{
		State: PortState(a.State), MaxMTU: MTU(a.MaxMTU), ActiveMTU: MTU(a.ActiveMTU), CapFlags: a.CapFlags, MaxMsgSize: a.MaxMsgSize,
		BadPKey: a.BadPKey, QKeyViolations: a.QKeyViolations, GIDTableLen: a.GIDTableLen, PKeyTableLen: a.PKeyTableLen,
		LID: a.LID, SMLID: a.SMLID, LMC: a.LMC, MaxVL: a.MaxVL, SMSL: a.SMSL, SubnetTimeout: a.SubnetTimeout,
		InitTypeReply: a.InitTypeReply, ActiveWidth: a.ActiveWidth, ActiveSpeed: a.ActiveSpeed, PhysState: a.PhysState,
		LinkLayer: a.LinkLayer, Flags: a.Flags,
	}
}
