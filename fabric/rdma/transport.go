package rdma

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/verbs"
)

// Transport is RDMA between the peers of a job. See the package comment.
type Transport struct {
	// Key is a secret that only the peers of this job know.
	Key [32]byte
	// Settings are limits and thresholds, and the devices to use.
	Settings Settings
	// Near are names of devices to prefer, in this order: the first one that works is used. Settings.Devices takes precedence.
	// A launcher that starts several processes on a node sets Near to spread the processes over devices that are equally near.
	Near []string
	// Local lists the peers on this node in ascending order, this process included. It may be nil. Each of them uses another
	// completion vector, which is an interrupt of the device, if there are enough.
	Local []int
	// Provider selects how devices of this machine are accessed, see verbs.Options.
	Provider string
	// Network provides the devices. Nil means those of this machine; tests simulate others.
	Network Network
	// Report is called with one line that the user should know, for instance why a device is not used although another is. It may
	// be nil.
	Report func(text string)

	selected devices.Selection // of the transports that PerSubnet returns
	unfit    []error           // why ports are not used that the settings exclude; of the first transport that PerSubnet returns
	place    int               // index in Local
}

// Network provides devices: those of this machine, or of a simulated network.
type Network interface {
	// Devices lists the devices of the node, also those that cannot be opened.
	Devices() ([]verbs.Device, error)
	// Open opens a device.
	Open(name string) (*verbs.Context, error)
	// Prefix returns the network of an address of an interface. It is not valid if it is unknown.
	Prefix(netdev string, addr netip.Addr) netip.Prefix
}

// network returns Network, or that of this machine.
func (t *Transport) network() devices.Network {
	if t.Network != nil {
		return t.Network
	}
	return devices.Machine{Provider: t.Provider}
}

// PerSubnet returns a transport for each subnet that this process can use a device of, at most three. Processes that open
// all of them reach every peer that has a device of one of these subnets. The first has the best device for this process.
// If the devices are named, by the field or the environment variable, there is only one.
func (t *Transport) PerSubnet() ([]*Transport, error) {
	set, err := t.Settings.Complete()
	if err != nil {
		return nil, err
	}
	if len(set.Devices) > 0 {
		named := *t
		named.Settings.Devices = set.Devices
		return []*Transport{&named}, nil
	}
	n := t.network()
	all, err := t.candidates(n)
	if err != nil {
		return nil, err
	}
	selections, unfit := devices.PerSubnet(all, set.choice(), n)
	var ts []*Transport
	for _, s := range selections {
		one := *t
		one.Settings.Devices, one.selected = s.Rails(set.Rails), s
		ts = append(ts, &one)
	}
	for _, err := range unfit {
		ts[0].unfit = append(ts[0].unfit, exported(err))
	}
	return ts, nil
}

// without returns the transport to try when a device of this one cannot be used: with the other ports of the subnet, if PerSubnet
// has chosen the devices, and with the rails before that device, if they were named: the rails of two processes are connected in
// pairs. It returns nil if there is none.
func (t *Transport) without(err error) *Transport {
	failed, at := t.selected.Chosen.Device, 0
	if e := new(DeviceError); errors.As(err, &e) {
		for i, device := range t.Settings.Devices {
			if name, _, _ := devices.SplitPort(device); name == e.Device {
				failed, at = device, i
			}
		}
	}
	if t.selected.Chosen.Port == nil && at > 0 {
		one := *t
		one.Settings.Devices = t.Settings.Devices[:at]
		return &one
	}
	next, ok := t.selected.Without(failed)
	if !ok {
		return nil
	}
	one := *t
	one.selected, one.Settings.Devices = next, next.Rails(len(t.Settings.Devices))
	return &one
}

// alsoUnused adds to the error of a named device which others are not used because of it: those after it. next is the transport
// without it.
func (t *Transport) alsoUnused(next *Transport, err error) error {
	if next == nil || t.selected.Chosen.Port != nil || len(next.Settings.Devices)+1 >= len(t.Settings.Devices) {
		return err
	}
	after := t.Settings.Devices[len(next.Settings.Devices)+1:]
	return fmt.Errorf("%w; so what is named after it is not used either: %s", err, strings.Join(after, ", "))
}

// candidates returns the ports of the network that this process may use, the best first.
func (t *Transport) candidates(n devices.Network) ([]devices.Candidate, error) {
	all, err := n.Devices()
	if err != nil {
		return nil, fmt.Errorf("fabric/rdma: %w: %w", fabric.ErrNotSupported, err)
	}
	allowed, err := hw.Affinity()
	if err != nil {
		allowed = nil // all devices count as equally near
	}
	return devices.Candidates(all, allowed, t.Near)
}

// Name returns "rdma".
func (t *Transport) Name() string { return transports.RDMA.String() }

// Probe returns an error if no device can be used. It opens a device and closes it.
func (t *Transport) Probe() error {
	_, err := t.Limits()
	return err
}

// qkey returns the Q_Key of the datagrams of the job. It lets the device drop most datagrams of others. Its highest bit must be
// 0: other values are reserved for privileged programs.
func (t *Transport) qkey() uint32 {
	return binary.LittleEndian.Uint32(auth.Key(t.Key).MAC("datagrams")) &^ (1 << 31)
}

// Open opens the named devices, or the best one for this process that can be used. From then on, Poll answers peers that request
// a connection.
func (t *Transport) Open(ctx context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	if cfg.Self < 0 || cfg.Self >= cfg.Size {
		return nil, fmt.Errorf("fabric/rdma: open: peer %d is out of range: there are %d peers", cfg.Self, cfg.Size)
	}
	ts, err := t.PerSubnet()
	if err != nil {
		return nil, err
	}
	why := slices.Clip(ts[0].unfit)
	for one := ts[0]; one != nil; {
		d, err := one.openDevices(ctx, cfg)
		if err == nil {
			t.reportUnused(why)
			return d, nil
		}
		next := one.without(err)
		why = append(why, one.alsoUnused(next, err))
		one = next
	}
	err = why[0]
	for _, next := range why[1:] { // errors.Join would make several lines
		err = fmt.Errorf("%w; %w", err, next)
	}
	return nil, err
}

// openDevices opens the named devices. A call that was only interrupted, or came at a bad moment, is made again with all others.
func (t *Transport) openDevices(ctx context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	one := *t
	one.place = max(0, slices.Index(t.Local, cfg.Self))
	set, err := one.Settings.Complete()
	if err != nil {
		return nil, err
	}
	for wait := openPause; ; wait *= 2 {
		d, err := open(&one, cfg, set)
		if err == nil || !isTransient(err) || wait > maxOpenPause || !liveness.Sleep(ctx, wait) {
			return d, err
		}
	}
}

// The pauses before a device is opened again double from the first of these to the second.
const (
	openPause    = 5 * time.Millisecond
	maxOpenPause = 10 * time.Millisecond
)

// isTransient reports whether a call that has failed may succeed if it is made again.
func isTransient(err error) bool {
	return errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EBUSY)
}

// reportUnused reports why devices are not used although another is.
func (t *Transport) reportUnused(why []error) {
	if t.Report == nil {
		return
	}
	for _, err := range why {
		t.Report(fmt.Sprintf("one RDMA device is not used, but another is: %v", err))
	}
}
