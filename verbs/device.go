package verbs

import (
	"cmp"
	"os"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// ProviderVariable is the environment variable that selects the provider if [Options] do not.
const ProviderVariable = "IBRUN_VERBS_PROVIDER"

// Device is an RDMA device of this machine, as package hw describes it. It is plain data.
type Device struct {
	hw.RDMADevice

	// Err is the reason why the device cannot be opened, or nil. It is of one of the kinds of this package, and contains the
	// remedy.
	Err error
}

// Options are the options of Open. The zero Options are right for nearly all programs.
type Options struct {
	// Provider is the software that drives the device: "rxe" (Soft-RoCE without any library) or "libibverbs" (every device for
	// which the installed library has a driver). With "" it is the value of $IBRUN_VERBS_PROVIDER, or else what fits the device.
	Provider string
}

func (o Options) provider() string { return cmp.Or(o.Provider, os.Getenv(ProviderVariable)) }

// Devices lists the RDMA devices of this network namespace, including those that cannot be opened. Only Linux has RDMA
// devices.
func Devices() ([]Device, error) {
	list, err := hw.LocalRDMA()
	if err != nil {
		return nil, &Error{Op: "list the devices", Kind: kindOf(err), Err: err}
	}
	devices := make([]Device, len(list))
	for i, d := range list {
		devices[i] = Device{RDMADevice: d, Err: openError(&d)}
	}
	return devices, nil
}

// openError returns why a device cannot be opened, or nil.
func openError(d *hw.RDMADevice) error {
	const op = "open"
	refuse := func(detail string) error {
		return &Error{Op: op, Device: d.Name, Kind: ErrNotSupported, Detail: detail}
	}
	switch d.Type {
	case hw.NodeRNIC:
		return refuse("iWARP devices need a connection manager, which is not supported; switch the adapter to RoCE mode if it has one")
	case hw.NodeUnspecified:
		return refuse("the device has a protocol of its own (EFA) and no queue pairs of types RC, UC and UD")
	case hw.NodeUSNIC, hw.NodeUSNICUDP:
		return refuse("usNIC has no queue pairs of types RC, UC and UD")
	}
	if err := d.CanOpen(); err != nil {
		return &Error{Op: op, Device: d.Name, Kind: cmp.Or(kindOf(err), ErrNoDevice), Err: err}
	}
	return nil
}

// Open opens the device of this name, or with "" the first that can be opened and has an active port. The error contains the
// reason why a device cannot be used.
func Open(name string, o Options) (*Context, error) {
	if !isProvider(o.provider()) { // also where there is no device
		return nil, o.unknownProvider("")
	}
	devices, err := Devices()
	if err != nil {
		return nil, err
	}
	e := &Error{Op: "open", Device: name, Kind: ErrNoDevice,
		Detail: "no RDMA device found; `ibrun soft-roce up NETDEV` creates a software one"}
	for i := range devices {
		d := &devices[i]
		switch {
		case name == d.Name:
			return d.Open(o)
		case name != "":
			e.Detail = "other devices exist, such as " + d.Name
		case d.Err != nil:
			e.Detail, e.Err = "no device can be opened", d.Err
		case !d.active():
			e.Detail = "device " + d.Name + " has no active port"
		default:
			return d.Open(o)
		}
	}
	return nil, e
}

// active reports whether a port is active.
func (d *Device) active() bool {
	for _, p := range d.Ports {
		if p.State == hw.PortActive {
			return true
		}
	}
	return false
}

// Open opens the device. Any number of contexts may be open at the same time. They share nothing.
func (d *Device) Open(o Options) (*Context, error) {
	if d.Err != nil {
		return nil, d.Err
	}
	p, err := d.provider(o)
	if err != nil {
		return nil, err
	}
	return openOn(p, d.RDMADevice)
}

// openOn opens a device through a provider.
func openOn(p ib.Provider, d hw.RDMADevice) (*Context, error) {
	file, _ := d.Uverbs()
	dev := ib.Device{Name: d.Name, Uverbs: file.Name, ABI: file.ABI, SysPath: "/sys/class/infiniband/" + d.Name,
		Dev: deviceNumber(file.Major, file.Minor)}
	if d.Provider == "rxe" {
		dev.Driver = uint32(uverbs.DriverRXE)
	}
	c, err := p.Open(dev)
	if err != nil {
		return nil, &Error{Op: "open", Device: d.Name, Kind: kindOf(err), Err: err}
	}
	ctx, err := newContext(c, p.Name(), d)
	if err != nil {
		c.Close()
		return nil, err
	}
	return ctx, nil
}

// deviceNumber returns what makedev(3) returns.
func deviceNumber(major, minor uint32) uint64 {
	const low12, low8 = 0xfff, 0xff
	return uint64(minor&low8) | uint64(major&low12)<<8 | uint64(minor&^low8)<<12 | uint64(major&^low12)<<32
}
