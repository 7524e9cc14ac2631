package rdma

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
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
	// Provider selects how devices are accessed, see verbs.Options.
	Provider string

	openDevice func(device string) (*verbs.Context, error) // replaces verbs.Open in tests
}

// open opens a device.
func (t *Transport) open(name string) (*verbs.Context, error) {
	if t.openDevice != nil {
		return t.openDevice(name)
	}
	return verbs.Open(name, verbs.Options{Provider: t.Provider})
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

// Open opens the devices. From then on, Poll answers peers that request a connection.
func (t *Transport) Open(_ context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	if cfg.Self < 0 || cfg.Self >= cfg.Size {
		return nil, fmt.Errorf("fabric/rdma: open: peer %d is out of range: there are %d peers", cfg.Self, cfg.Size)
	}
	set, err := t.Settings.Complete()
	if err != nil {
		return nil, err
	}
	if set.Devices, err = chooseDevices(set.Devices, t.Near); err != nil {
		return nil, err
	}
	return open(t, cfg, set)
}
