package rdma

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/internal/tunables"
)

// Settings are the limits and thresholds of a domain. The zero value of a field leaves it to the environment variable that
// is named with it, and then to the default.
type Settings struct {
	// Devices are the names of the devices to use, or of ports of them (mlx5_0:2; without, the first that is active), one for
	// each rail, the first for messages; the peers need the same number in the same order. Empty means the nearest device that
	// works. IBRUN_RDMA_DEVICES, with commas.
	Devices []string
	// Eager is the largest payload, in bytes, that is sent at once rather than announced and read. Default, and most: what fits
	// a slot. IBRUN_RDMA_EAGER.
	Eager int
	// Slot is the size in bytes of a slot, which holds a message with its headers. Default: 6912, of which a connection
	// has two to begin with. IBRUN_RDMA_SLOT.
	Slot int
	// Stream is the largest payload that goes in several messages rather than by a read. Default: 16384. IBRUN_RDMA_STREAM.
	Stream int
	// Inline is the largest message, header included, that is handed to the device within its request. Default: 128.
	// IBRUN_RDMA_INLINE.
	Inline int
	// Window is how many messages a busy peer may send ahead. Default: 64. IBRUN_RDMA_WINDOW.
	Window int
	// Pool is the memory in bytes that busy peers' windows may take. Default: 16 MiB. IBRUN_RDMA_POOL.
	Pool int
	// Piece is the largest RDMA read or write in bytes; larger transfers are split, and spread over the rails. Default: 64
	// packets. IBRUN_RDMA_PIECE.
	Piece int
}

// environment returns the value of a variable, empty if it is not set: os.Getenv.
type environment func(variable string) string

// Complete returns the settings with every field set, from the environment or by default. The error names the variable or
// field that makes no sense.
func (s Settings) Complete() (Settings, error) { return s.complete(os.Getenv) }

// numbers returns the fields that are numbers.
func (s *Settings) numbers() []number {
	return []number{
		{&tunables.RDMASlot, &s.Slot}, {&tunables.RDMAEager, &s.Eager}, {&tunables.RDMAStream, &s.Stream},
		{&tunables.RDMAInline, &s.Inline}, {&tunables.RDMAWindow, &s.Window}, {&tunables.RDMAPool, &s.Pool},
		{&tunables.RDMAPiece, &s.Piece},
	}
}

// number is a field that is a number, and its description.
type number struct {
	*tunables.Tunable
	value *int
}

func (s Settings) complete(env environment) (Settings, error) {
	for _, n := range s.numbers() {
		if *n.value == 0 {
			v, err := n.FromEnv(env)
			if err != nil {
				return s, fmt.Errorf("fabric/rdma: %w", err)
			}
			*n.value = cmp.Or(v, n.Default)
		}
		if *n.value < n.Min || *n.value > n.Max {
			return s, fmt.Errorf("fabric/rdma: %s is %d, and may be %d to %d", n.FieldName(), *n.value, n.Min, n.Max)
		}
	}
	s.Slot = (s.Slot + 63) &^ 63
	if most := s.Slot - headerBytes; s.Eager == 0 || s.Eager > most {
		s.Eager = most
	}
	if text := env(tunables.RDMADevices); len(s.Devices) == 0 && text != "" {
		s.Devices = strings.Split(text, ",")
	}
	for _, d := range s.Devices {
		if _, _, err := cutPort(d); err != nil {
			return s, err
		}
	}
	if len(s.Devices) > maxRails {
		return s, fmt.Errorf("fabric/rdma: %d devices are named, and there may be %d", len(s.Devices), maxRails)
	}
	return s, nil
}

// partBytes is the payload of one of several messages: short enough that the peer copies the first while the next is on its way.
const partBytes = 4 << 10

// Caps are those of a domain with these settings, which are complete.
func (s *Settings) Caps() fabric.Caps {
	return fabric.Caps{
		Transport: transports.RDMA.String(), MaxSend: s.Slot - headerBytes, Eager: s.Eager, Fragment: partBytes,
		Read: true, Write: true,
	}
}

func (s *Settings) poolSlots() int { return s.Pool / s.Slot }
