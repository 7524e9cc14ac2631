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
	// Key is known to the peers of this job and to nobody else.
	Key [32]byte
	// Settings are limits and thresholds, and which devices to use.
	Settings Settings
	// Near are names of devices to take, the first that works, before others that are as near to this process: whoever started
	// several of them has shared the devices out. Those that Settings name count before them.
	Near []string
	// Provider is how devices are reached, see verbs.Options.
	Provider string

	played func(device string) (*verbs.Context, error) // opens devices in place of verbs.Open, in tests
}

// device opens a device.
func (t *Transport) device(name string) (*verbs.Context, error) {
	if t.played != nil {
		return t.played(name)
	}
	return verbs.Open(name, verbs.Options{Provider: t.Provider})
}

// Name is "rdma".
func (t *Transport) Name() string { return transports.RDMA.String() }

// Probe reports why no device can be used, or nil. It opens one and closes it.
func (t *Transport) Probe() error {
	_, err := t.Limits()
	return err
}

// qkey is what datagrams of the job carry, so that the device drops most others. Its first bit is not for users.
func (t *Transport) qkey() uint32 {
	return binary.LittleEndian.Uint32(auth.Key(t.Key).MAC("datagrams")) &^ (1 << 31)
}

// Open opens the devices. Peers that ask for a connection are answered by Poll.
func (t *Transport) Open(_ context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	if cfg.Self < 0 || cfg.Self >= cfg.Size {
		return nil, fmt.Errorf("fabric/rdma: peer %d of %d", cfg.Self, cfg.Size)
	}
	set, err := t.Settings.Complete()
	if err != nil {
		return nil, err
	}
	if set.Devices, err = choose(set.Devices, t.Near); err != nil {
		return nil, err
	}
	return open(t, cfg, set)
}
