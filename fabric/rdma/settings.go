package rdma

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/internal/tunables"
	"github.com/ibrun/ibrun/verbs"
)

// Settings are the limits and thresholds of a domain. If a field has its zero value, the environment variable that is named
// with it is used, and then the default.
type Settings struct {
	// Devices are the names of the devices to use, one for each rail; the first one carries the messages. A name may include a
	// port: mlx5_0:2; without it, the first active port is used. All peers need the same number of devices in the same order.
	// If empty, the nearest device that works is used. IBRUN_RDMA_DEVICES, separated by commas.
	Devices []string
	// Eager is the largest payload, in bytes, that is sent by the eager protocol rather than by rendezvous. Default and
	// maximum: what fits into a slot. IBRUN_RDMA_EAGER.
	Eager int
	// Slot is the size of a bounce buffer in bytes. It holds a message with its headers. Default: 6912. Each connection begins
	// with two receive slots. IBRUN_RDMA_SLOT.
	Slot int
	// Stream is the largest payload, in bytes, that is sent in eager fragments rather than by an
	// RDMA read. Default: 16384, which is little more than one message: below that, fragments take
	// less time than the answer to an RTS. IBRUN_RDMA_STREAM.
	Stream int
	// Inline is the largest message, header included, that is sent inline: copied to the device with its request. Default: 128,
	// or what the device grants.
	// IBRUN_RDMA_INLINE.
	Inline int
	// Window is how many messages a busy peer may send in advance. Default: 64. IBRUN_RDMA_WINDOW.
	Window int
	// Pool is the memory in bytes that the windows of busy peers may use. Default: 16 MiB. IBRUN_RDMA_POOL.
	Pool int
	// Piece is the largest RDMA read or write in bytes. Larger transfers are split and spread over the rails. Default: 64
	// packets. IBRUN_RDMA_PIECE.
	Piece int
	// Heartbeat is how long the device or the process of a peer may answer nothing before the peer is lost. An idle peer is asked
	// at least once in half of that time, so a lost peer is found within two times Heartbeat. Default: 15 s. IBRUN_HEARTBEAT.
	Heartbeat time.Duration

	// GIDIndex is the index of the local address in the GID table of the port, also that of a RoCE v1 address. If nil, it is
	// chosen as verbs.Context.ChooseGID does. IBRUN_RDMA_GID_INDEX.
	GIDIndex *int
	// PKey is the key of the InfiniBand partition to use. The membership bit, 0x8000, does not count. Default: the first one that
	// both peers are members of. IBRUN_RDMA_PKEY.
	PKey int
	// ServiceLevel is the service level of packets, 0 to 15; on RoCE it is the priority. IBRUN_RDMA_SL.
	ServiceLevel int
	// TrafficClass is that of packets with a global route header: the DSCP times 4 on RoCE. Default: 0. docs/transports.md says
	// where 106 is right. IBRUN_RDMA_TRAFFIC_CLASS.
	TrafficClass int
	// MTU is the most payload of a packet in bytes: 256, 512, 1024, 2048 or 4096. The smaller value of two peers and their ports
	// counts. Default: that of the ports. IBRUN_RDMA_MTU.
	MTU int
	// Timeout says how long a device waits for an acknowledgement: 4.096 µs * 2^Timeout. Default: 14. IBRUN_RDMA_TIMEOUT.
	Timeout int
	// Retries is how often the device retransmits before the connection is made again, 1 to 7. Soft-RoCE takes 7 for no limit.
	// Default: 7. IBRUN_RDMA_RETRIES.
	Retries int
	// RNRRetries is how often the device retransmits what the peer had no receive posted for. Default: 7, which means no limit.
	// IBRUN_RDMA_RNR_RETRIES.
	RNRRetries int
	// Rails is how many devices of a subnet are used, 1 to 4, if Devices is empty: the nearest that works, and others of the same
	// subnet. Default: 1. IBRUN_RDMA_RAILS.
	Rails int
	// Paths is over how many paths between two devices long transfers are striped, 1 to 8, but at most 8 over all rails. The
	// smaller value of two peers counts. Default: 1. IBRUN_RDMA_PATHS.
	Paths int
}

// environment returns the value of a variable, empty if it is not set: os.Getenv.
type environment func(variable string) string

// Complete returns the settings with every field set, from the environment or by default. An error names the invalid variable
// or field.
func (s Settings) Complete() (Settings, error) { return s.complete(os.Getenv) }

// ints returns the fields that are numbers.
func (s *Settings) ints() []intSetting {
	return []intSetting{
		{&tunables.RDMASlot, &s.Slot}, {&tunables.RDMAEager, &s.Eager}, {&tunables.RDMAStream, &s.Stream},
		{&tunables.RDMAInline, &s.Inline}, {&tunables.RDMAWindow, &s.Window}, {&tunables.RDMAPool, &s.Pool},
		{&tunables.RDMAPiece, &s.Piece},
	}
}

// intSetting is a field that is a number, and its description.
type intSetting struct {
	*tunables.Tunable
	value *int
}

// attributes returns the fields that are attributes of connections, apart from GIDIndex.
func (s *Settings) attributes() []attributeSetting {
	return []attributeSetting{
		{&tunables.RDMAPKey, &s.PKey}, {&tunables.RDMAServiceLevel, &s.ServiceLevel},
		{&tunables.RDMATrafficClass, &s.TrafficClass}, {&tunables.RDMAMTU, &s.MTU}, {&tunables.RDMATimeout, &s.Timeout},
		{&tunables.RDMARetries, &s.Retries}, {&tunables.RDMARNRRetries, &s.RNRRetries}, {&tunables.RDMARails, &s.Rails},
		{&tunables.RDMAPaths, &s.Paths},
	}
}

// attributeSetting is a field that is an attribute of connections, and its description.
type attributeSetting struct {
	*tunables.Attribute
	value *int
}

// completeAttributes sets the attributes that are not set. PKey and MTU stay 0 by default.
func (s *Settings) completeAttributes(env environment) error {
	for _, a := range s.attributes() {
		if *a.value != 0 {
			if err := a.Check(*a.value); err != nil {
				return fmt.Errorf("fabric/rdma: %w", err)
			}
			continue
		}
		v, set, err := a.FromEnv(env)
		if err != nil {
			return fmt.Errorf("fabric/rdma: %w", err)
		}
		if *a.value = v; !set {
			*a.value = a.Default
		}
	}
	if s.GIDIndex != nil {
		if err := tunables.RDMAGIDIndex.Check(*s.GIDIndex); err != nil {
			return fmt.Errorf("fabric/rdma: %w", err)
		}
		return nil
	}
	v, set, err := tunables.RDMAGIDIndex.FromEnv(env)
	if err != nil {
		return fmt.Errorf("fabric/rdma: %w", err)
	}
	if set {
		s.GIDIndex = &v
	}
	return nil
}

func (s Settings) complete(env environment) (Settings, error) {
	for _, n := range s.ints() {
		if *n.value == 0 {
			v, err := n.FromEnv(env)
			if err != nil {
				return s, fmt.Errorf("fabric/rdma: %w", err)
			}
			*n.value = cmp.Or(v, n.Default)
		}
		if *n.value < n.Min || *n.value > n.Max {
			return s, fmt.Errorf("fabric/rdma: %s=%d is out of range (%d to %d)", n.FieldName(), *n.value, n.Min, n.Max)
		}
	}
	err := verbs.CheckProvider(env(verbs.ProviderVariable)) // the devices, if there are any, would refuse it
	if err != nil {
		return s, fmt.Errorf("fabric/rdma: %s: %w", verbs.ProviderVariable, err)
	}
	if s.Heartbeat == 0 {
		if s.Heartbeat, err = tunables.HeartbeatFromEnv(env); err != nil {
			return s, fmt.Errorf("fabric/rdma: %w", err)
		}
	}
	if s.Heartbeat < 0 {
		return s, fmt.Errorf("fabric/rdma: rdma.Settings.Heartbeat is negative: %v", s.Heartbeat)
	}
	if err := s.completeAttributes(env); err != nil {
		return s, err
	}
	// With such a timeout one lost packet would be a lost peer. The default suits every heartbeat that the variable can have.
	if wait := timeoutDuration(s.Timeout); s.Timeout > tunables.RDMATimeout.Default && wait >= s.Heartbeat {
		return s, fmt.Errorf("fabric/rdma: %w: %s=%d: a device would wait %v before it sends again, but a peer is lost after %v; "+
			"choose a smaller one, or a larger %s", tunables.ErrAttribute, tunables.RDMATimeout.Variable, s.Timeout, wait, s.Heartbeat,
			tunables.Heartbeat)
	}
	s.Slot = (s.Slot + 63) &^ 63
	if most := s.Slot - messages.HeaderBytes; s.Eager == 0 || s.Eager > most {
		s.Eager = most
	}
	if text := env(tunables.RDMADevices); len(s.Devices) == 0 && text != "" {
		s.Devices = strings.Split(text, ",")
	}
	for _, d := range s.Devices {
		if _, _, err := devices.SplitPort(d); err != nil {
			return s, err
		}
	}
	if len(s.Devices) > cm.MaxRails {
		return s, fmt.Errorf("fabric/rdma: %d devices are named, but at most %d are supported", len(s.Devices), cm.MaxRails)
	}
	return s, nil
}

// choice returns what is demanded of ports.
func (s *Settings) choice() devices.Choice {
	return devices.Choice{GIDIndex: s.GIDIndex, PKey: s.PKey, MTU: s.MTU}
}

// fragmentBytes is the payload of an eager fragment: short enough that the peer copies the first fragment while the next one is
// in transit.
const fragmentBytes = 4 << 10

// Caps returns the limits and thresholds of a domain with these settings, which must be complete.
func (s *Settings) Caps() fabric.Caps {
	return fabric.Caps{
		Transport: transports.RDMA.String(), MaxSend: s.Slot - messages.HeaderBytes, Eager: s.Eager, Fragment: fragmentBytes,
		Stream: s.Stream, Read: true, Write: true,
	}
}

// poolSlots returns how many slots the windows of busy peers may use.
func (s *Settings) poolSlots() int { return s.Pool / s.Slot }
