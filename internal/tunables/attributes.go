package tunables

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Attribute describes an attribute of InfiniBand and RoCE that administrators set for RDMA connections. It is a number, but
// neither a length that decides how messages travel nor a count of messages.
type Attribute struct {
	// Name is its name in the output of `ibrun explain`.
	Name string
	// Variable is the environment variable that sets it, and Field the field of a type in package fabric.
	Variable, Field string
	// Default is what holds if nothing sets it. 0 in a field means the default too, unless the field is a pointer.
	Default int
	// DefaultText describes the default for the documentation. Empty means that the number says it all.
	DefaultText string
	// Min and Max are the bounds. valid checks what they do not say; nil means nothing.
	Min, Max int
	valid    func(int) bool
	// Want describes the values that are allowed.
	Want string
	// Meaning describes the attribute in one line.
	Meaning string
}

// The attributes of RDMA connections.
var (
	RDMAGIDIndex = Attribute{
		Name: "GID index", Variable: "IBRUN_RDMA_GID_INDEX", Field: "rdma.Settings.GIDIndex",
		DefaultText: "RoCE v2, an address of this network namespace, IPv4 before IPv6", Max: math.MaxUint8,
		Want: "an index from 0 to 255", Meaning: "entry of the GID table of the port, by which peers reach it",
	}
	RDMAPKey = Attribute{
		Name: "P_Key", Variable: "IBRUN_RDMA_PKEY", Field: "rdma.Settings.PKey",
		DefaultText: "the first partition of the port that both ranks can use", Min: 1, Max: math.MaxUint16,
		valid: func(n int) bool { return n&0x7fff != 0 },
		Want:  "a partition key such as 0x8001", Meaning: "partition of an InfiniBand network; the membership bit does not count",
	}
	RDMAServiceLevel = Attribute{
		Name: "service level", Variable: "IBRUN_RDMA_SL", Field: "rdma.Settings.ServiceLevel",
		Max: 15, Want: "a number from 0 to 15", Meaning: "service level of InfiniBand; on RoCE the priority in the VLAN tag",
	}
	RDMATrafficClass = Attribute{
		Name: "traffic class", Variable: "IBRUN_RDMA_TRAFFIC_CLASS", Field: "rdma.Settings.TrafficClass",
		Max: math.MaxUint8, Want: "a number from 0 to 255",
		Meaning: "traffic class of packets with a global route header, that is of all on RoCE; see [below](#traffic-class-of-roce)",
	}
	RDMAMTU = Attribute{
		Name: "path MTU", Variable: "IBRUN_RDMA_MTU", Field: "rdma.Settings.MTU",
		DefaultText: "the smaller one of both ports, the maximum", Min: 256, Max: 4096,
		valid: func(n int) bool { return bits.OnesCount(uint(n)) == 1 },
		Want:  "256, 512, 1024, 2048 or 4096",
		Meaning: "most payload of a packet; the smaller value of two ranks counts. If larger packets are lost, ranks use 1,024 bytes " +
			"and say so",
	}
	RDMATimeout = Attribute{
		Name: "timeout", Variable: "IBRUN_RDMA_TIMEOUT", Field: "rdma.Settings.Timeout",
		Default: 14, Min: 1, Max: 31, Want: "a number from 1 to 31",
		Meaning: "a device sends again what is not acknowledged within 4.096 µs * 2^timeout, 67 ms by default; devices may wait " +
			"up to four times as long",
	}
	RDMARetries = Attribute{
		Name: "retries", Variable: "IBRUN_RDMA_RETRIES", Field: "rdma.Settings.Retries",
		Default: 7, Min: 1, Max: 7, Want: "a number from 1 to 7",
		Meaning: "how often a device sends again before the connection is made again; on Soft-RoCE 7 means without limit",
	}
	RDMARNRRetries = Attribute{
		Name: "RNR retries", Variable: "IBRUN_RDMA_RNR_RETRIES", Field: "rdma.Settings.RNRRetries",
		Default: 7, DefaultText: "7, without limit", Min: 1, Max: 7, Want: "a number from 1 to 7",
		Meaning: "how often a device sends again what the receiver was not ready for",
	}
	RDMARails = Attribute{
		Name: "rails", Variable: "IBRUN_RDMA_RAILS", Field: "rdma.Settings.Rails",
		Default: 1, Min: 1, Max: 4, Want: "a number from 1 to 4",
		Meaning: "how many devices of a subnet a rank uses, if `IBRUN_RDMA_DEVICES` does not name them; " +
			"see [below](#rails-and-paths)",
	}
	RDMAPaths = Attribute{
		Name: "paths", Variable: "IBRUN_RDMA_PATHS", Field: "rdma.Settings.Paths",
		Default: 1, Min: 1, Max: 8, Want: "a number from 1 to 8",
		Meaning: "over how many paths between two devices long messages are striped; see [below](#rails-and-paths)",
	}
)

// Attributes returns every attribute.
func Attributes() []*Attribute {
	return []*Attribute{&RDMAGIDIndex, &RDMAPKey, &RDMAServiceLevel, &RDMATrafficClass, &RDMAMTU, &RDMATimeout, &RDMARetries,
		&RDMARNRRetries, &RDMARails, &RDMAPaths}
}

// ErrAttribute is the error for a value that an attribute cannot have.
var ErrAttribute = errors.New("invalid setting")

// FieldName returns the name of Field without its package and type, such as "PKey".
func (a *Attribute) FieldName() string { return a.Field[strings.LastIndexByte(a.Field, '.')+1:] }

// Check returns an error if n is not a valid value of the field.
func (a *Attribute) Check(n int) error {
	if !a.allows(n) {
		return fmt.Errorf("%w: %s is %d: want %s", ErrAttribute, a.Field, n, a.Want)
	}
	return nil
}

func (a *Attribute) allows(n int) bool {
	return n >= a.Min && n <= a.Max && (a.valid == nil || a.valid(n))
}

// FromEnv returns the value of the variable, and whether it is set. Numbers that begin with 0x are hexadecimal.
func (a *Attribute) FromEnv(getenv func(string) string) (n int, set bool, err error) {
	text := getenv(a.Variable)
	if text == "" {
		return 0, false, nil
	}
	digits, base := text, 10
	if hex, found := strings.CutPrefix(text, "0x"); found {
		digits, base = hex, 16
	}
	v, err := strconv.ParseUint(digits, base, 32)
	if err != nil || !a.allows(int(v)) {
		return 0, true, fmt.Errorf("%w: %s=%.60q: want %s", ErrAttribute, a.Variable, text, a.Want)
	}
	return int(v), true, nil
}
