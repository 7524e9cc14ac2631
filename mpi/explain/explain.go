// Package explain describes how messages are sent: over which transport of this machine, by which protocol, and why.
//
//	paths, err := explain.Paths("", os.Getenv, []int{8, 1 << 20})
//
// It contains no copy of the rules of the transports or of the engine of package mpi. Lengths come from the transports, as the
// environment and the devices of this machine define them. The engine's own function chooses the protocol.
package explain

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric/auto"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/internal/tunables"
	"github.com/ibrun/ibrun/mpi/internal/protocols"
	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

// Path describes a transport, and how messages are sent over it.
type Path struct {
	// Transport is shm, rdma or tcp. Between describes the ranks that use it.
	Transport string `json:"transport"`
	Between   string `json:"between"`
	// Unusable is the reason why the transport cannot be used on this machine, if it cannot. The other fields then describe
	// what would happen if it could.
	Unusable string `json:"unusable,omitempty"`
	// Limits are the lengths that decide how messages travel. Messages has one element for each size.
	Limits   []Limit   `json:"limits"`
	Messages []Message `json:"messages"`
	// Attributes are the other settings in force.
	Attributes []Attribute `json:"attributes,omitempty"`
}

// Attribute is a setting that does not select the protocol of a message, such as the traffic class of RDMA connections: its
// value as text, which is empty if it is unknown without a device, its source, and the environment variable that changes it, if
// there is one.
type Attribute struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Source   string `json:"source"`
	Variable string `json:"variable,omitempty"`
}

// Limit is a length in bytes and its source, and the environment variable and the field of mpi.Thresholds that change
// it, if there are any.
type Limit struct {
	Name     string `json:"name"`
	Bytes    int    `json:"bytes"`
	Source   string `json:"source"`
	Variable string `json:"variable,omitempty"`
	Field    string `json:"field,omitempty"`
}

// Message describes a message of a size, sent by a standard send to a connected rank whose buffer for unexpected
// messages is not full.
type Message struct {
	Bytes int `json:"bytes"`
	// Protocol is one of "eager inline", "eager", "parts", "read", "shared", "rdma read" and "copies", or "random" if IBRUN_PROTOCOL
	// says that it is drawn.
	Protocol string `json:"protocol"`
	// Pieces is the number of messages of the transport, of reads by a device, or of pieces that the two sides share, by which
	// the payload is transferred. It is 0 if the device decides it, and if the protocol is drawn.
	Pieces int `json:"pieces"`
	// Why explains which limit selected the protocol.
	Why string `json:"why"`
	// Measured is set if Protocol is only that of the first messages: the time that messages of this size take decides for later
	// ones, separately for each pair of ranks.
	Measured bool `json:"measured,omitempty"`
}

// Paths explains messages of these sizes in bytes over the transports of a list in the format of IBRUN_TRANSPORT; an
// empty list means the value of that variable. The error names an invalid setting.
func Paths(transports string, getenv func(string) string, sizes []int) ([]Path, error) {
	n, err := settings(transports, getenv)
	if err != nil {
		return nil, err
	}
	forced, err := tunables.ProtocolFromEnv(getenv)
	if err != nil {
		return nil, err
	}
	found, err := n.Paths()
	if err != nil {
		return nil, err
	}
	var paths []Path
	for _, f := range found {
		p, err := explain(f, sizes, forced)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Transport, err)
		}
		if err := p.addSettings(getenv); err != nil {
			return nil, err
		}
		paths = append(paths, p)
	}
	return paths, nil
}

// Protocols returns a function that returns the values of IBRUN_PROTOCOL, and of the hint ibrun_protocol, that name a protocol
// that can carry a standard send of so many bytes over a transport. The error says that the transport cannot be used on this
// machine, or names an invalid setting.
func Protocols(transport string, getenv func(string) string) (func(bytes int) []string, error) {
	n, err := settings(transport, getenv)
	if err != nil {
		return nil, err
	}
	found, err := n.Paths()
	if err != nil {
		return nil, err
	}
	f := found[0]
	if f.Err != nil {
		return nil, fmt.Errorf("%s: %w", f.Transport, f.Err)
	}
	t, err := protocols.ThresholdsOf(f.Caps)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Transport, err)
	}
	return func(bytes int) (names []string) {
		for p := range perf.Protocols {
			want := protocols.Protocol(p)
			registered := want == protocols.RendezvousRead || want == protocols.RendezvousShared
			if t.Nearest(want, bytes, true, f.Cooperative) == want && !(registered && f.Region > 0 && bytes > f.Region) {
				names = append(names, p.String())
			}
		}
		return names
	}, nil
}

// settings returns the settings of the environment, with the transports of a list in place of those of IBRUN_TRANSPORT unless it
// is empty.
func settings(transports string, getenv func(string) string) (n auto.Node, err error) {
	if err := n.FromEnv(getenv); err != nil {
		return n, err
	}
	if transports != "" {
		n.Transports, err = auto.ParseTransports(transports)
	}
	return n, err
}

// Port says whether a job can use an RDMA port of this machine.
type Port struct {
	Device string
	Port   int
	// Err is why a job cannot use it, nil if it can.
	Err error
}

// CheckInterfaces returns an error if a list in the format of IBRUN_TCP_INTERFACES is invalid.
func CheckInterfaces(list string) error {
	var n auto.Node
	return n.FromEnv(func(name string) string {
		if name == tunables.TCPInterfaces {
			return list
		}
		return ""
	})
}

// UnusedInterfaces returns the lines that a job prints about network interfaces that IBRUN_TCP_INTERFACES names and this machine
// does not have. The error names an invalid setting, or says that the settings choose none of the interfaces of this machine.
func UnusedInterfaces(getenv func(string) string) ([]string, error) {
	var n auto.Node
	if err := n.FromEnv(getenv); err != nil {
		return nil, err
	}
	return n.UnusedInterfaces()
}

// Ports returns the active RDMA ports of this machine that jobs may use by the settings. It opens each as a job does. The
// list also has devices and ports that IBRUN_RDMA_DEVICES names and that do not exist or are not active. The number of the port
// is 0 if the name has none. The error names an invalid setting.
func Ports(getenv func(string) string) ([]Port, error) {
	var n auto.Node
	if err := n.FromEnv(getenv); err != nil {
		return nil, err
	}
	uses, err := n.Uses()
	var ports []Port
	for _, u := range uses {
		ports = append(ports, Port(u))
	}
	return ports, err
}

// explain explains messages of these sizes over one path. forced is the protocol that the environment names; nil: none.
func explain(f auto.Path, sizes []int, forced *tunables.ForcedProtocol) (Path, error) {
	p := Path{Transport: f.Transport, Between: f.Between}
	if f.Err != nil {
		p.Unusable = f.Err.Error()
	}
	for _, l := range f.Limits {
		p.Limits = append(p.Limits, Limit(l))
	}
	for _, a := range f.Attributes {
		p.Attributes = append(p.Attributes, Attribute(a))
	}
	thresholds, err := protocols.ThresholdsOf(f.Caps)
	if err != nil {
		return p, err
	}
	for _, n := range sizes {
		switch {
		case forced == nil, forced.Random && n <= thresholds.MaxEager:
			m := message(f, thresholds, n, thresholds.Choose(n, f.Cooperative))
			if m.Measured = thresholds.MaxStream != 0 && n > thresholds.MaxEager; m.Measured {
				m.Why = fmt.Sprintf("the first messages; more than %d bytes take the protocol that proves to be the fastest",
					thresholds.MaxEager)
			}
			p.Messages = append(p.Messages, m)
		case forced.Random:
			p.Messages = append(p.Messages, Message{Bytes: n, Protocol: "random", Why: fmt.Sprintf("more than %d bytes take a "+
				"protocol that is drawn for each message, as %s says", thresholds.MaxEager, tunables.Protocol)})
		default:
			nearest := thresholds.Nearest(protocols.Protocol(forced.Protocol), n, true, f.Cooperative)
			m := message(f, thresholds, n, nearest)
			m.Why = fmt.Sprintf("%s=%v, or the nearest that can carry it", tunables.Protocol, forced.Protocol)
			p.Messages = append(p.Messages, m)
		}
	}
	return p, nil
}

// message explains one size, which is sent by this protocol.
func message(p auto.Path, t protocols.Thresholds, n int, protocol protocols.Protocol) Message {
	m := Message{Bytes: n, Pieces: t.FragmentCount(protocol, n)}
	eager := t.EagerLimit()
	rendezvous := fmt.Sprintf("more than %d bytes use the rendezvous protocol: ", eager)
	switch protocol {
	case protocols.Eager:
		m.Protocol = "eager"
		m.Why = fmt.Sprintf("up to %d bytes are sent eagerly, copied into one message", t.MaxEager)
		if inline := p.Inline - wire.EnvelopeBytes; n <= inline {
			m.Protocol = "eager inline"
			m.Why = fmt.Sprintf("up to %d bytes are sent eagerly, inside the request to the device", inline)
		}
	case protocols.Fragmented:
		m.Protocol = "parts"
		m.Why = fmt.Sprintf("up to %d bytes are sent eagerly, in fragments of %d; "+
			"the receiver copies one while the sender writes the next", eager, t.FragmentSize)
	case protocols.RendezvousShared:
		m.Protocol = "shared"
		m.Why = rendezvous + "the receiver reads from the front, the sender writes from the back"
		if m.Pieces == 1 {
			m.Why = rendezvous + "the receiver reads or the sender writes, whichever starts first"
		}
	case protocols.RendezvousCopy:
		m.Protocol = "copies"
		m.Why = rendezvous + fmt.Sprintf("the sender sends them in messages of %d", t.MaxData)
	case protocols.RendezvousRead:
		if p.Region > 0 && n > p.Region {
			m.Protocol, m.Pieces = "copies", t.FragmentCount(protocols.RendezvousCopy, n)
			m.Why = fmt.Sprintf("the device registers at most %d bytes (max_mr_size), so the sender sends longer messages in parts of %d",
				p.Region, t.MaxData)
			break
		}
		m.read(p, rendezvous)
	}
	return m
}

// read explains a rendezvous in which the receiver gets the payload by reading the sender's memory.
func (m *Message) read(p auto.Path, rendezvous string) {
	m.Protocol = "read"
	switch {
	case p.Transport == transports.TCP.String() && p.Push > 0:
		m.Why = rendezvous + fmt.Sprintf("up to %d bytes directly follow the RTS; a receiver that waits gets them streamed "+
			"into its buffer and requests the rest; any other receiver drops them and requests them later", p.Push)
	case p.Transport == transports.TCP.String():
		m.Why = rendezvous + "the sender's kernel streams them into the receiver's buffer"
	case p.Transport == transports.RDMA.String():
		m.Protocol, m.Pieces = "rdma read", 0
		m.Why = rendezvous + "the receiver's device reads them by RDMA READ"
		if p.Piece > 0 {
			m.Pieces = (m.Bytes + p.Piece - 1) / p.Piece
			m.Why += fmt.Sprintf(", at most %d bytes each", p.Piece)
		}
	default:
		m.Why = rendezvous + "the receiver reads them from the sender's memory"
	}
}
