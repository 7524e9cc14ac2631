package rdma

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/fabric"
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

// environment is where settings come from that are not set: os.LookupEnv.
type environment func(name string) (string, bool)

// Complete returns the settings with every field set, from the environment or by default. The error names the variable or
// field that makes no sense.
func (s Settings) Complete() (Settings, error) { return s.complete(os.LookupEnv) }

// numbers are the fields that are numbers.
func (s *Settings) numbers() []number {
	return []number{
		{"Slot", "IBRUN_RDMA_SLOT", &s.Slot, 6912, 512, 1 << 20},
		{"Eager", "IBRUN_RDMA_EAGER", &s.Eager, 0, 0, 1 << 20},
		{"Stream", "IBRUN_RDMA_STREAM", &s.Stream, 16 << 10, 0, 1 << 30},
		{"Inline", "IBRUN_RDMA_INLINE", &s.Inline, 128, 0, 4096},
		{"Window", "IBRUN_RDMA_WINDOW", &s.Window, 64, 1, 4096},
		{"Pool", "IBRUN_RDMA_POOL", &s.Pool, 16 << 20, 0, 1 << 40},
		{"Piece", "IBRUN_RDMA_PIECE", &s.Piece, 0, 0, 8 << 20},
	}
}

// number is a setting that is one.
type number struct {
	field, variable     string
	value               *int
	preset, least, most int
}

func (s Settings) complete(env environment) (Settings, error) {
	for _, n := range s.numbers() {
		name, least := n.field, n.least
		if text, ok := env(n.variable); ok && *n.value == 0 && text != "" {
			v, err := strconv.Atoi(text)
			if err != nil {
				return s, fmt.Errorf("fabric/rdma: %s=%q is not a number of bytes or messages", n.variable, text)
			}
			*n.value, name, least = v, n.variable, max(1, least) // 0 is the default in a field only
		} else if *n.value == 0 {
			*n.value = n.preset
		}
		if *n.value < least || *n.value > n.most {
			return s, fmt.Errorf("fabric/rdma: %s is %d, and may be %d to %d", name, *n.value, least, n.most)
		}
	}
	s.Slot = (s.Slot + 63) &^ 63
	if most := s.Slot - headerBytes; s.Eager == 0 || s.Eager > most {
		s.Eager = most
	}
	if text, ok := env("IBRUN_RDMA_DEVICES"); ok && len(s.Devices) == 0 && text != "" {
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
	return fabric.Caps{Transport: "rdma", MaxSend: s.Slot - headerBytes, Eager: s.Eager, Part: partBytes, Read: true, Write: true}
}

func (s *Settings) poolSlots() int { return s.Pool / s.Slot }
