// Package tunables is the table of the lengths and counts that decide how messages travel, and that users may set.
//
// One line describes a tunable: the environment variable, the field of mpi.Thresholds, the field of the transport's package, the
// default, the bounds and the meaning. The transports, fabric/auto, `ibrun explain` and the report of a job follow from this
// table; a test holds the table of docs/transports.md against it.
package tunables

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/internal/transports"
)

// Tunable describes one length in bytes, or one count of messages.
type Tunable struct {
	Transport transports.Transport
	// Name is its name among those of its transport in the output of `ibrun explain`.
	Name string
	// Variable is the environment variable that sets it.
	Variable string
	// Threshold is the field of mpi.Thresholds that sets it, or empty if only the variable does.
	Threshold string
	// Field is the field of a type in package fabric that sets it, such as "rdma.Settings.Eager".
	Field string
	// Default is what holds if nothing sets it. 0 means that it depends on something else, which DefaultText names.
	Default int
	// DefaultText describes the default for the documentation. Empty means that the number says it all.
	DefaultText string
	// Min and Max are the bounds of a field of the transport's package, in which 0 also means the default. A variable and a
	// threshold must be 1 at least.
	Min, Max int
	// Meaning describes the tunable in one line.
	Meaning string
}

// The tunables.
var (
	ShmStream = Tunable{
		Transport: transports.Shm, Name: "stream",
		Variable: "IBRUN_SHM_STREAM", Threshold: "ShmStream", Field: "shm.Transport.Stream",
		Default: 64 << 10, DefaultText: "at first 65536, then up to 4194304 as far as they prove to be faster; " +
			"4194304 if ranks share cores",
		Max:     math.MaxInt32,
		Meaning: "longest message that is sent in fragments; up to 32768 bytes are always one message",
	}
	// ShmRing has the bounds of Transport.Ring of package fabric/shm, which are mediumSpace and
	// largeSpace there. TestTunables of package fabric/auto compares them.
	ShmRing = Tunable{
		Transport: transports.Shm, Name: "ring",
		Variable: "IBRUN_SHM_RING", Threshold: "ShmRing", Field: "shm.Transport.Ring",
		Default: 2 << 20, DefaultText: "2097152, the maximum; 131072 is the minimum", Min: 128 << 10, Max: 2 << 20,
		Meaning: "size that the ring to a peer has after many long messages, rounded down to a power of two",
	}
	TCPEager = Tunable{
		Transport: transports.TCP, Name: "eager",
		Variable: "IBRUN_TCP_EAGER", Threshold: "TCPEager", Field: "tcp.Transport.Eager",
		Default: 128 << 10, DefaultText: "131072, the maximum", Max: 128 << 10,
		Meaning: "longest message that is sent as one",
	}
	TCPPush = Tunable{
		Transport: transports.TCP, Name: "push",
		Variable: "IBRUN_TCP_PUSH", Threshold: "TCPPush", Field: "tcp.Transport.Push",
		Default: 2 << 20, DefaultText: "2097152, the maximum", Max: 2 << 20,
		Meaning: "how many bytes of a message are sent together with its RTS; none if this is not more than `IBRUN_TCP_EAGER`",
	}
	RDMAEager = Tunable{
		Transport: transports.RDMA, Name: "eager",
		Variable: "IBRUN_RDMA_EAGER", Threshold: "RDMAEager", Field: "rdma.Settings.Eager",
		DefaultText: "what fits a slot, the maximum", Max: 1 << 20,
		Meaning: "longest message that is sent as one",
	}
	RDMAStream = Tunable{
		Transport: transports.RDMA, Name: "stream",
		Variable: "IBRUN_RDMA_STREAM", Threshold: "RDMAStream", Field: "rdma.Settings.Stream",
		Default: 16 << 10, Max: 1 << 30,
		Meaning: "longest message that is sent in fragments",
	}
	RDMAInline = Tunable{
		Transport: transports.RDMA, Name: "inline",
		Variable: "IBRUN_RDMA_INLINE", Threshold: "RDMAInline", Field: "rdma.Settings.Inline",
		Default: 128, DefaultText: "128; a device may grant another number", Max: 4096,
		Meaning: "longest message, with its headers of 32 bytes, that is copied into the work request",
	}
	RDMAPiece = Tunable{
		Transport: transports.RDMA, Name: "piece",
		Variable: "IBRUN_RDMA_PIECE", Threshold: "RDMAPiece", Field: "rdma.Settings.Piece",
		DefaultText: "64 packets of the device", Max: 8 << 20,
		Meaning: "longest single RDMA READ",
	}
	RDMASlot = Tunable{
		Transport: transports.RDMA, Name: "slot",
		Variable: "IBRUN_RDMA_SLOT", Field: "rdma.Settings.Slot",
		Default: 6912, Min: 512, Max: 1 << 20,
		Meaning: "size of a slot, which holds one message with its headers",
	}
	RDMAWindow = Tunable{
		Transport: transports.RDMA, Name: "window",
		Variable: "IBRUN_RDMA_WINDOW", Field: "rdma.Settings.Window",
		Default: 64, Min: 1, Max: 4096,
		Meaning: "how many messages a busy peer may send ahead; see [scaling.md](scaling.md)",
	}
	RDMAPool = Tunable{
		Transport: transports.RDMA, Name: "pool",
		Variable: "IBRUN_RDMA_POOL", Field: "rdma.Settings.Pool",
		Default: 16 << 20, DefaultText: "16 MiB", Max: 1 << 40,
		Meaning: "memory for the windows of busy peers; see [scaling.md](scaling.md)",
	}
)

// Variables that choose transports and devices rather than set a number.
const (
	Transports    = "IBRUN_TRANSPORT"
	TCPInterfaces = "IBRUN_TCP_INTERFACES"
	RDMADevices   = "IBRUN_RDMA_DEVICES"
)

// Encrypt is the variable that demands encryption between nodes. It must have the same value at every rank.
const Encrypt = "IBRUN_ENCRYPT"

// EncryptFromEnv returns the value of the variable [Encrypt], or false if it is not set.
func EncryptFromEnv(getenv func(string) string) (bool, error) {
	text := getenv(Encrypt)
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s=%.60q: want 1 (encrypt) or 0", Encrypt, text)
	}
	return on, nil
}

// Checksum is the variable that says whether messages over TCP between machines have checksums: on, the default, or off.
const Checksum = "IBRUN_CHECKSUM"

// ChecksumFromEnv returns the value of the variable [Checksum], or true if it is not set.
func ChecksumFromEnv(getenv func(string) string) (on bool, err error) {
	text := getenv(Checksum)
	if text == "" {
		return true, nil
	}
	if on, err = ParseChecksum(text); err != nil {
		err = fmt.Errorf("%s=%.60q: %w", Checksum, text, err)
	}
	return on, err
}

// ParseChecksum parses a value of the variable [Checksum].
func ParseChecksum(text string) (on bool, err error) {
	if text != "on" && text != "off" {
		return false, errors.New("want on or off")
	}
	return text == "on", nil
}

// All returns every tunable.
func All() []*Tunable {
	return []*Tunable{
		&ShmStream, &ShmRing, &TCPEager, &TCPPush,
		&RDMAEager, &RDMAStream, &RDMAInline, &RDMAPiece, &RDMASlot, &RDMAWindow, &RDMAPool,
	}
}

// Variables returns the names of all environment variables that decide how messages travel.
func Variables() []string {
	names := []string{Transports, TCPInterfaces, RDMADevices, ShmStores, Encrypt, Poll, Protocol}
	for _, t := range All() {
		names = append(names, t.Variable)
	}
	for _, a := range Attributes() {
		names = append(names, a.Variable)
	}
	return names
}

// FieldName returns the name of Field without its package and type, such as "Eager".
func (t *Tunable) FieldName() string { return t.Field[strings.LastIndexByte(t.Field, '.')+1:] }

// ErrInvalid is the error for a value that is out of bounds, or is not a number.
var ErrInvalid = errors.New("invalid length")

// FromEnv returns the value of the tunable's variable, or 0 if it is not set.
func (t *Tunable) FromEnv(getenv func(string) string) (int, error) {
	text := getenv(t.Variable)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if least := max(1, t.Min); err != nil || n < least || n > t.Max {
		return 0, fmt.Errorf("%w: %s=%.60q: want a number from %d to %d", ErrInvalid, t.Variable, text, least, t.Max)
	}
	return n, nil
}

// CheckThreshold reports an error if n is not a valid value of the tunable's field of mpi.Thresholds; 0, the default, is valid.
func (t *Tunable) CheckThreshold(n int) error {
	if least := max(1, t.Min); n != 0 && n < least || n > t.Max {
		return fmt.Errorf("%w: Thresholds.%s is %d: want a number from %d to %d", ErrInvalid, t.Threshold, n, least, t.Max)
	}
	return nil
}
