package verbs

import (
	"cmp"
	"os"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/libibverbs"
	"github.com/ibrun/ibrun/verbs/internal/rxe"
)

// ProviderVariable is the environment variable that chooses the provider where [Options] do not.
const ProviderVariable = "IBRUN_VERBS_PROVIDER"

// Device is an RDMA device of this machine, as package hw reads it. It is plain data.
type Device struct {
	hw.RDMADevice

	// Err is why the device cannot be opened, or nil. It is one of the kinds of this package, with the reason and what
	// would help.
	Err error
}

// Options say how to open a device. The zero Options are right for nearly all.
type Options struct {
	// Provider is how the device is reached: "rxe" (Soft-RoCE without any library), "libibverbs" (every device for which the
	// installed library has a driver), or "" for what $IBRUN_VERBS_PROVIDER says, or else what fits the device.
	Provider string
}

// Devices lists the RDMA devices that this network namespace can see, also those that cannot be opened. Only on Linux there are
// any.
func Devices() ([]Device, error) {
	list, err := hw.LocalRDMA()
	if err != nil {
		return nil, &Error{Op: "list the devices", Kind: kindOf(err), Err: err}
	}
	devices := make([]Device, len(list))
	for i, d := range list {
		devices[i] = Device{RDMADevice: d, Err: obstacle(&d)}
	}
	return devices, nil
}

// obstacle is why a device cannot be opened, or nil.
func obstacle(d *hw.RDMADevice) error {
	const op = "open"
	refuse := func(detail string) error {
		return &Error{Op: op, Device: d.Name, Kind: ErrNotSupported, Detail: detail}
	}
	switch d.Type {
	case hw.NodeRNIC:
		return refuse("iWARP devices connect through a connection manager only; RoCE mode is needed, if the adapter has it")
	case hw.NodeUnspecified:
		return refuse("the device speaks a protocol of its own (EFA) and has no queue pairs of the types RC, UC and UD")
	case hw.NodeUSNIC, hw.NodeUSNICUDP:
		return refuse("usNIC has no queue pairs of the types RC, UC and UD")
	}
	if err := d.CanOpen(); err != nil {
		return &Error{Op: op, Device: d.Name, Kind: cmp.Or(kindOf(err), ErrNoDevice), Err: err}
	}
	return nil
}

// Open opens the device of this name, or with "" the first that can be opened and has an active port. The error says what
// is wrong with each that was considered.
func Open(name string, o Options) (*Context, error) {
	devices, err := Devices()
	if err != nil {
		return nil, err
	}
	e := &Error{Op: "open", Device: name, Kind: ErrNoDevice,
		Detail: "there is no RDMA device; ibrun soft-roce up makes one of any network interface"}
	for i := range devices {
		d := &devices[i]
		switch {
		case name == d.Name:
			return d.Open(o)
		case name != "":
			e.Detail = "there are others, such as " + d.Name
		case d.Err != nil:
			e.Detail, e.Err = "none can be opened", d.Err
		case !d.active():
			e.Detail = "no port is active, as of " + d.Name
		default:
			return d.Open(o)
		}
	}
	return nil, e
}

func (d *Device) active() bool {
	for _, p := range d.Ports {
		if p.State == hw.PortActive {
			return true
		}
	}
	return false
}

// Open opens the device. Any number of contexts may be open at the same time; they share nothing.
func (d *Device) Open(o Options) (*Context, error) {
	if d.Err != nil {
		return nil, d.Err
	}
	p, err := d.provider(cmp.Or(o.Provider, os.Getenv(ProviderVariable)))
	if err != nil {
		return nil, err
	}
	return OpenOn(p, d.RDMADevice)
}

// provider finds the provider of this name, or the one that fits the device.
func (d *Device) provider(name string) (ib.Provider, error) {
	soft, library := rxe.New(), libibverbs.New()
	isSoft := d.RDMADevice.Provider == soft.Name()
	switch {
	case name == soft.Name() && !isSoft:
		return nil, &Error{Op: "open", Device: d.Name, Kind: ErrNotSupported, Detail: "the provider rxe drives Soft-RoCE devices only"}
	case name == soft.Name(), name == "" && isSoft:
		return soft, nil
	case name == library.Name(), name == "":
		return library, nil
	}
	return nil, &Error{Op: "open", Device: d.Name, Kind: ErrInvalid,
		Detail: "there is no provider " + name + ", only rxe and libibverbs"}
}

// OpenOn opens a device through a provider. Providers are internal to this module, so this is for package verbstest, which
// plays devices back that it does not have.
func OpenOn(p ib.Provider, d hw.RDMADevice) (*Context, error) {
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

// deviceNumber is makedev(3).
func deviceNumber(major, minor uint32) uint64 {
	const low12, low8 = 0xfff, 0xff
	return uint64(minor&low8) | uint64(major&low12)<<8 | uint64(minor&^low8)<<12 | uint64(major&^low12)<<32
}
