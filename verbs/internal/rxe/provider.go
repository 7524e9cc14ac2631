package rxe

import (
	"sync/atomic"

	"github.com/ibrun/ibrun/internal/abi/rxe"
	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/uverbs"
)

// Provider opens Soft-RoCE devices.
type Provider struct {
	open func(ib.Device) (*uverbs.Context, error)
}

// New returns the provider for the running kernel.
func New() *Provider { return &Provider{open: uverbs.Open} }

// On returns the provider for a simulated kernel.
func On(k uverbs.Kernel) *Provider {
	return &Provider{open: func(d ib.Device) (*uverbs.Context, error) { return uverbs.OpenWith(k, d) }}
}

// Name returns "rxe".
func (*Provider) Name() string { return "rxe" }

// Open opens a device.
func (p *Provider) Open(d ib.Device) (ib.Context, error) {
	u, err := p.open(d)
	if err != nil {
		return nil, err
	}
	return &context{uctx: u}, nil
}

// context is an open device.
type context struct {
	uctx   *uverbs.Context
	tokens atomic.Uint64 // the last token; events name objects by tokens, and no token is used twice
}

func (c *context) AsyncFD() int            { return c.uctx.AsyncFD() }
func (c *context) AckAsync(uint32, uint64) {} // the kernel does not wait for it
func (c *context) Close() error            { return c.uctx.Close() }

func (c *context) AllocPD() (ib.PD, error) {
	h, err := c.uctx.AllocPD(uverbs.Driver{})
	if err != nil {
		return nil, err
	}
	return &pd{ctx: c, handle: h}, nil
}

// mapRing maps a ring that the driver made. newRing checks and interprets it.
func mapRing[R any](c *context, at rxe.MmapInfo, newRing func(mem []byte) (R, error)) (R, error) {
	var none R
	mem, err := c.uctx.Map(at.Offset, int(at.Size))
	if err != nil {
		return none, err
	}
	r, err := newRing(mem)
	if err != nil {
		c.uctx.Unmap(mem)
	}
	return r, err
}

// unmap unmaps what Detach of a ring returned, which may be nil.
func (c *context) unmap(mem []byte) error {
	if mem == nil {
		return nil
	}
	return c.uctx.Unmap(mem)
}

func (c *context) QueryDevice() (ib.DeviceAttr, error) {
	r, err := c.uctx.QueryDevice()
	if err != nil {
		return ib.DeviceAttr{}, err
	}
	return ib.DeviceAttr{
		FirmwareVersion: firmware(r.FWVer), NodeGUID: be64(r.NodeGUID), SysImageGUID: be64(r.SysImageGUID), MaxMRSize: r.MaxMRSize,
		PageSizeCap: r.PageSizeCap, VendorID: r.VendorID, VendorPartID: r.VendorPartID, HWVersion: r.HWVer, MaxQP: r.MaxQP,
		MaxQPWR: r.MaxQPWR, DeviceCapFlags: r.DeviceCapFlags, MaxSGE: r.MaxSGE, MaxSGERd: r.MaxSGERd, MaxCQ: r.MaxCQ,
		MaxCQE: r.MaxCQE, MaxMR: r.MaxMR, MaxPD: r.MaxPD, MaxQPRdAtom: r.MaxQPRdAtom, MaxResRdAtom: r.MaxResRdAtom,
		MaxQPInitRdAtom: r.MaxQPInitRdAtom, AtomicCap: r.AtomicCap, MaxMW: r.MaxMW, MaxMcastGrp: r.MaxMcastGrp,
		MaxMcastQPAttach: r.MaxMcastQPAttach, MaxTotMcastAttach: r.MaxTotalMcastQPAttach, MaxAH: r.MaxAH, MaxSRQ: r.MaxSRQ,
		MaxSRQWR: r.MaxSRQWR, MaxSRQSGE: r.MaxSRQSGE, MaxPKeys: r.MaxPkeys, LocalCAAckDelay: r.LocalCAAckDelay, Ports: r.PhysPortCnt,
	}, nil
}

func (c *context) QueryPort(port int) (ib.PortAttr, error) {
	r, err := c.uctx.QueryPort(uint8(port))
	if err != nil {
		return ib.PortAttr{}, err
	}
	return ib.PortAttr{
		CapFlags: r.PortCapFlags, MaxMsgSize: r.MaxMsgSz, BadPKey: r.BadPKeyCntr, QKeyViolations: r.QKeyViolCntr,
		GIDTableLen:  r.GIDTblLen,
		PKeyTableLen: r.PKeyTblLen, LID: r.LID, SMLID: r.SMLID, State: r.State, MaxMTU: r.MaxMTU, ActiveMTU: r.ActiveMTU, LMC: r.LMC,
		MaxVL: r.MaxVLNum, SMSL: r.SMSL, SubnetTimeout: r.SubnetTimeout, InitTypeReply: r.InitTypeReply, ActiveWidth: r.ActiveWidth,
		ActiveSpeed: r.ActiveSpeed, PhysState: r.PhysState, LinkLayer: r.LinkLayer, Flags: r.Flags,
	}, nil
}

// QueryGIDs first queries the lengths of the tables: the kernel needs space for all entries, including empty ones.
func (c *context) QueryGIDs() ([]ib.GID, error) {
	d, err := c.uctx.QueryDevice()
	if err != nil {
		return nil, err
	}
	entriesMax := 0
	for p := range d.PhysPortCnt {
		a, err := c.uctx.QueryPort(p + 1)
		if err != nil {
			return nil, err
		}
		entriesMax += int(a.GIDTblLen)
	}
	entries, err := c.uctx.GIDs(entriesMax)
	gids := make([]ib.GID, len(entries))
	for i, e := range entries {
		gids[i] = ib.GID{GID: e.GID, Index: e.GIDIndex, Port: e.PortNum, Type: e.GIDType, Netdev: int(e.NetdevIfindex)}
	}
	return gids, err
}

func (c *context) QueryPKey(port, index int) (uint16, error) { return c.uctx.PKey(uint8(port), index) }
