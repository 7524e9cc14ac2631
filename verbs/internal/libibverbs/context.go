//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// Provider is the installed library. The first Open loads it.
type Provider struct {
	library func() (*library, error)
}

// New returns the provider. It does not load the library.
func New() *Provider {
	return &Provider{library: sync.OnceValues(func() (*library, error) { return load(soname) })}
}

// Name returns "libibverbs".
func (*Provider) Name() string { return "libibverbs" }

// Open opens the device, which the library finds by its name. A [MissingError] says what has to be installed.
func (p *Provider) Open(dev ib.Device) (ib.Context, error) {
	l, err := p.library()
	if err != nil {
		return nil, err
	}
	ptr, err := l.open(dev.Name)
	if err != nil {
		return nil, err
	}
	x := &context{lib: l, ptr: ptr, ibvCtx: structAt[ibv.Context](ptr), rxe: uverbs.DriverID(dev.Driver) == uverbs.DriverRXE}
	if err := syscall.SetNonblock(x.AsyncFD(), true); err != nil {
		return nil, errors.Join(fmt.Errorf("make the descriptor for asynchronous events non-blocking: %w", err), x.Close())
	}
	return x, nil
}

// open finds a device among those for which the library has a driver, and opens it.
func (l *library) open(name string) (uintptr, error) {
	var n int32
	list, err := l.create("ibv_get_device_list", func() uintptr { return l.getDeviceList(&n) })
	if err != nil {
		return 0, err
	}
	defer l.freeDeviceList(list)
	for _, device := range addresses(list, int(n)) {
		if l.getDeviceName(device) == name {
			return l.create("ibv_open_device", func() uintptr { return l.openDevice(device) })
		}
	}
	return 0, &MissingError{What: "the driver of " + soname + " for device " + name, Need: packages}
}

var (
	_ ib.EventReader = (*context)(nil)
	_ ib.EventReader = (*channel)(nil)
)

// context is struct ibv_context.
type context struct {
	lib       *library
	ptr       uintptr
	ibvCtx    *ibv.Context
	rxe       bool          // the driver is rxe
	lastToken atomic.Uint64 // the last token that newToken returned
}

// newToken returns a token for a new object. Unlike the address of the object, it is never used again, so a late event cannot be
// taken for an event of another object.
func (x *context) newToken() uint64 { return x.lastToken.Add(1) }

func (x *context) AsyncFD() int { return int(x.ibvCtx.AsyncFD) }

// AckAsync does nothing, because ReadEvents has acknowledged the event.
func (x *context) AckAsync(uint32, uint64) {}

func (x *context) Close() error {
	return x.lib.do("ibv_close_device", func() int32 { return x.lib.closeDevice(x.ptr) })
}

func (x *context) QueryDevice() (ib.DeviceAttr, error) {
	a := new(ibv.DeviceAttr)
	err := x.lib.do("ibv_query_device", func() int32 { return x.lib.queryDevice(x.ptr, a) })
	if err != nil {
		return ib.DeviceAttr{}, err
	}
	firmware, _, _ := bytes.Cut(a.FWVer[:], []byte{0})
	return ib.DeviceAttr{
		FirmwareVersion: string(firmware),
		NodeGUID:        fromBE64(a.NodeGUID), SysImageGUID: fromBE64(a.SysImageGUID),
		MaxMRSize: a.MaxMRSize, PageSizeCap: a.PageSizeCap,
		VendorID: a.VendorID, VendorPartID: a.VendorPartID, HWVersion: a.HWVer,
		MaxQP: uint32(a.MaxQP), MaxQPWR: uint32(a.MaxQPWR), DeviceCapFlags: a.DeviceCapFlags,
		MaxSGE: uint32(a.MaxSGE), MaxSGERd: uint32(a.MaxSGERd), MaxCQ: uint32(a.MaxCQ), MaxCQE: uint32(a.MaxCQE),
		MaxMR: uint32(a.MaxMR), MaxPD: uint32(a.MaxPD),
		MaxQPRdAtom: uint32(a.MaxQPRdAtom), MaxResRdAtom: uint32(a.MaxResRdAtom), MaxQPInitRdAtom: uint32(a.MaxQPInitRdAtom),
		AtomicCap: a.AtomicCap,
		MaxMW:     uint32(a.MaxMW), MaxMcastGrp: uint32(a.MaxMcastGrp),
		MaxMcastQPAttach: uint32(a.MaxMcastQPAttach), MaxTotMcastAttach: uint32(a.MaxTotalMcastQPAttach),
		MaxAH: uint32(a.MaxAH), MaxSRQ: uint32(a.MaxSRQ), MaxSRQWR: uint32(a.MaxSRQWR), MaxSRQSGE: uint32(a.MaxSRQSGE),
		MaxPKeys: a.MaxPKeys, LocalCAAckDelay: a.LocalCAAckDelay, Ports: a.PhysPortCnt,
	}, nil
}

// fromBE64 converts a number that C holds in network order.
func fromBE64(be64 uint64) uint64 {
	return binary.BigEndian.Uint64(binary.NativeEndian.AppendUint64(nil, be64))
}

func (x *context) QueryPort(port int) (ib.PortAttr, error) {
	a := new(ibv.PortAttr) // its last fields stay zero: the function is older than they are
	err := x.lib.do("ibv_query_port", func() int32 { return x.lib.queryPort(x.ptr, uint8(port), a) })
	if err != nil {
		return ib.PortAttr{}, err
	}
	return ib.PortAttr{
		CapFlags: a.PortCapFlags, MaxMsgSize: a.MaxMsgSz, BadPKey: a.BadPKeyCntr, QKeyViolations: a.QKeyViolCntr,
		GIDTableLen: uint32(a.GIDTblLen), PKeyTableLen: a.PKeyTblLen, LID: a.LID, SMLID: a.SMLID,
		State: uint8(a.State), MaxMTU: uint8(a.MaxMTU), ActiveMTU: uint8(a.ActiveMTU), LMC: a.LMC, MaxVL: a.MaxVLNum, SMSL: a.SMSL,
		SubnetTimeout: a.SubnetTimeout, InitTypeReply: a.InitTypeReply,
		ActiveWidth: a.ActiveWidth, ActiveSpeed: a.ActiveSpeed, PhysState: a.PhysState,
		LinkLayer: a.LinkLayer, Flags: a.Flags,
	}, nil
}

// QueryGIDs fails with a [MissingError] if the library has no function for the whole table. Package verbs reads the table from
// sysfs then, as libraries without that function do for the types of GIDs.
func (x *context) QueryGIDs() ([]ib.GID, error) {
	if x.lib.queryGIDTable == nil {
		return nil, notInLibrary(queryGIDTable, queryGIDTableNeed)
	}
	dev, err := x.QueryDevice()
	if err != nil {
		return nil, err
	}
	entriesMax := 0
	for port := 1; port <= int(dev.Ports); port++ {
		a, err := x.QueryPort(port)
		if err != nil {
			return nil, err
		}
		entriesMax += int(a.GIDTableLen)
	}
	if entriesMax == 0 {
		return nil, nil
	}
	table := make([]uverbs.GIDEntry, entriesMax)
	n := x.lib.queryGIDTable(x.ptr, &table[0], uint64(entriesMax), 0, gidEntrySize)
	if n < 0 {
		return nil, failed("ibv_query_gid_table", int32(-n))
	}
	gids := make([]ib.GID, n)
	for i, e := range table[:n] {
		gids[i] = ib.GID{GID: e.GID, Index: e.GIDIndex, Port: e.PortNum, Type: e.GIDType, Netdev: int(e.NetdevIfindex)}
	}
	return gids, nil
}

func (x *context) QueryPKey(port, index int) (uint16, error) {
	key := new([2]byte)
	err := x.lib.do("ibv_query_pkey", func() int32 { return x.lib.queryPKey(x.ptr, uint8(port), int32(index), key) })
	return binary.BigEndian.Uint16(key[:]), err
}
