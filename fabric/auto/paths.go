package auto

import (
	"errors"
	"strconv"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma"
	"github.com/ibrun/ibrun/fabric/shm"
	"github.com/ibrun/ibrun/fabric/tcp"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/internal/tunables"
)

// Path describes one transport between two processes: its limits and whether it can be used.
type Path struct {
	// Transport is a name for [ParseTransports]. Between describes the processes that it connects.
	Transport, Between string
	// Caps are those of the transport's domains. Cooperative is set if the domain is a fabric.CooperativeCopier.
	Caps fabric.Caps
	// Push is the largest number of payload bytes that are sent together with an RTS, or 0.
	Push        int
	Cooperative bool
	// Inline is the longest message of Caps that is copied into the device's work request; 0 without a device.
	Inline int
	// Piece is the longest read of the device; longer ones are split. 0 if it is unknown, or without a device.
	Piece int
	// Region is the longest memory that the device registers, so that peers can read it; 0 if it is unknown, or without a device.
	Region int
	// Limits are the numbers from which all this follows, as they are in force.
	Limits []Limit
	// Attributes are those of RDMA connections that are in force.
	Attributes []rdma.Attribute
	// Err says why the transport cannot be used on this machine. The other fields then describe it as if it could.
	Err error
}

// Limit is a number of bytes that decides how messages travel.
type Limit struct {
	Name  string
	Bytes int
	// Source says where the number comes from: a default, an environment variable, or a device.
	Source string
	// Variable is the environment variable that changes it, and Field that of [Thresholds]; empty if there is none.
	Variable, Field string
}

// limit returns the limit of a tunable.
func limit(t *tunables.Tunable, bytes int, source string) Limit {
	return Limit{t.Name, bytes, source, t.Variable, t.Threshold}
}

// attribute returns a tunable that does not decide how messages travel.
func attribute(t *tunables.Tunable, value int, source string) rdma.Attribute {
	return rdma.Attribute{Name: t.Name, Value: strconv.Itoa(value), Source: source, Variable: t.Variable}
}

// limit returns the limit of one of n's thresholds that nothing but the environment has set.
func (n Node) limit(t *tunables.Tunable, bytes int) Limit {
	for _, f := range n.Thresholds.fields() {
		if f.Tunable == t && *f.value != 0 {
			return limit(t, bytes, t.Variable)
		}
	}
	return limit(t, bytes, "default")
}

// Paths returns the paths of all transports that may be used, in order of preference. Like Open it probes this machine. The error
// names the setting that is invalid.
func (n Node) Paths() ([]Path, error) {
	var paths []Path
	remote := "ranks of different nodes"
	if n.allows(transports.Shm) {
		paths = append(paths, n.shmPath())
	} else {
		remote = "all ranks"
	}
	if n.allows(transports.RDMA) {
		p, err := n.rdmaPath(remote)
		if err != nil {
			return nil, err
		}
		paths = append(paths, p)
		remote += " without RDMA"
	}
	if n.allows(transports.TCP) {
		paths = append(paths, n.tcpPath(remote))
	}
	return paths, nil
}

// Uses returns which RDMA ports of this machine a job can use. It opens them as a job does. The list is empty if there are none,
// or if RDMA is not allowed. The error names an invalid setting.
func (n Node) Uses() ([]rdma.Use, error) {
	if !n.allows(transports.RDMA) {
		return nil, nil
	}
	uses, err := n.rdma().Uses()
	if errors.Is(err, fabric.ErrNotSupported) {
		return nil, nil
	}
	return uses, err
}

// UnusedInterfaces returns the lines about network interfaces that the settings name and this machine does not have, as Open
// reports them. The list is empty if TCP is not allowed. The error says that the settings choose no interface.
func (n Node) UnusedInterfaces() ([]string, error) {
	if !n.allows(transports.TCP) {
		return nil, nil
	}
	return n.tcp().UnusedRules()
}

func (n Node) shmPath() Path {
	t := n.shm()
	c := t.Caps()
	return Path{
		Transport: t.Name(), Between: "ranks of one node", Caps: c, Cooperative: true, Err: t.Probe(),
		Limits: []Limit{
			{"message", c.MaxSend, "fixed", "", ""},
			n.limit(&tunables.ShmStream, c.Stream),
			n.limit(&tunables.ShmRing, t.LargestRing()),
		},
	}
}

// rdmaPath describes RDMA. It returns an error only if a setting is invalid.
func (n Node) rdmaPath(between string) (Path, error) {
	t := n.rdma()
	l, err := t.Limits()
	s := l.Settings
	if s.Slot == 0 {
		return Path{}, err // a setting is invalid
	}
	if n.Encrypt {
		err = errNotEncrypted
	}
	source := func(t *tunables.Tunable) string { return l.Sources[t.FieldName()] }
	return Path{
		Transport: t.Name(), Between: between, Caps: s.Caps(),
		Inline: s.Inline - rdma.HeaderBytes, Piece: s.Piece, Region: l.Region, Err: err,
		Attributes: append(l.Attributes, attribute(&tunables.RDMAWindow, s.Window, source(&tunables.RDMAWindow)),
			attribute(&tunables.RDMAPool, s.Pool, source(&tunables.RDMAPool))),
		Limits: []Limit{
			limit(&tunables.RDMASlot, s.Slot, source(&tunables.RDMASlot)),
			limit(&tunables.RDMAInline, s.Inline, source(&tunables.RDMAInline)),
			limit(&tunables.RDMAEager, s.Eager, source(&tunables.RDMAEager)),
			limit(&tunables.RDMAStream, s.Stream, source(&tunables.RDMAStream)),
			limit(&tunables.RDMAPiece, s.Piece, source(&tunables.RDMAPiece)),
		},
	}, nil
}

func (n Node) tcpPath(between string) Path {
	t := n.tcp()
	return Path{
		Transport: t.Name(), Between: between, Caps: t.Caps(), Push: t.MaxPush(), Err: t.Probe(),
		Limits: []Limit{
			{"message", t.Caps().MaxSend, "format", "", ""},
			n.limit(&tunables.TCPEager, t.Caps().Eager),
			n.limit(&tunables.TCPPush, t.MaxPush()),
		},
	}
}

// transport returns the implementation of t with the settings of the node. It returns nil if users cannot choose t.
func (n Node) transport(t transports.Transport) fabric.Transport {
	switch t {
	case transports.Shm:
		return n.shm()
	case transports.RDMA:
		return n.rdma()
	case transports.TCP:
		return n.tcp()
	}
	return nil
}

func (n Node) shm() *shm.Transport {
	return &shm.Transport{Local: n.Local, Key: n.Key, Sockets: n.Sockets, Tracer: n.Tracer, Stream: n.Thresholds.ShmStream,
		Ring: n.Thresholds.ShmRing, Stores: n.Stores, SharedCores: n.SharedCores}
}

func (n Node) rdma() *rdma.Transport {
	s := n.Thresholds.settings()
	s.Heartbeat = n.Heartbeat
	return &rdma.Transport{Key: n.Key, Near: n.Devices, Local: n.Local, Settings: s, Network: n.network,
		Report: n.Report}
}

func (n Node) tcp() *tcp.Transport {
	return &tcp.Transport{Key: n.Key, Interfaces: n.Interfaces, Eager: n.Thresholds.TCPEager, Push: n.Thresholds.TCPPush,
		Encrypt: n.Encrypt, NoChecksum: n.NoChecksum, Timeout: n.Heartbeat, Report: n.Report}
}
