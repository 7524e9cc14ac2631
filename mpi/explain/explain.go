// Package explain tells how messages travel: over each transport of this machine, by which protocol, and why.
//
//	ways, err := explain.Ways("", os.Getenv, []int{8, 1 << 20})
//
// Nothing here is a copy of what a transport or the engine of package mpi knows: lengths come from the transports themselves, as
// the environment and the devices of this machine set them, and the decision is the engine's own function.
package explain

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric/auto"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// Path is a transport, and what becomes of messages over it.
type Path struct {
	// Transport is shm, rdma or tcp, and Between says which ranks are meant.
	Transport string `json:"transport"`
	Between   string `json:"between"`
	// Unusable says why the transport cannot be used on this machine; the rest is then what would hold if it could.
	Unusable string `json:"unusable,omitempty"`
	// Limits decide what becomes of a message, and Messages says it.
	Limits   []Limit   `json:"limits"`
	Messages []Message `json:"messages"`
}

// Limit is a length in bytes, where it comes from, and the environment variable and field of mpi.Thresholds that change it, if
// any do.
type Limit struct {
	Name     string `json:"name"`
	Bytes    int    `json:"bytes"`
	Source   string `json:"source"`
	Variable string `json:"variable,omitempty"`
	Field    string `json:"field,omitempty"`
}

// Message is what becomes of a message of so many bytes, sent by a standard send to a rank that is connected and whose buffer
// for early messages is not full.
type Message struct {
	Bytes int `json:"bytes"`
	// Protocol is one of "eager inline", "eager", "parts", "read", "shared", "rdma read" and "copies".
	Protocol string `json:"protocol"`
	// Pieces is how many messages of the transport, or reads of a device, or pieces for the two sides to share, carry the
	// payload; 0 where the device decides it and there is none.
	Pieces int `json:"pieces"`
	// Why names the limit that decided.
	Why string `json:"why"`
}

// Paths explains messages of these sizes in bytes over the transports of a list as IBRUN_TRANSPORT has it; an empty list
// leaves it to that variable. The error says which setting makes no sense.
func Paths(transports string, getenv func(string) string, sizes []int) ([]Path, error) {
	var n auto.Node
	if err := n.FromEnv(getenv); err != nil {
		return nil, err
	}
	if transports != "" {
		var err error
		if n.Transports, err = auto.ParseTransports(transports); err != nil {
			return nil, err
		}
	}
	found, err := n.Paths()
	if err != nil {
		return nil, err
	}
	var ways []Path
	for _, f := range found {
		w, err := explain(f, sizes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Transport, err)
		}
		ways = append(ways, w)
	}
	return ways, nil
}

func explain(f auto.Path, sizes []int) (Path, error) {
	w := Path{Transport: f.Transport, Between: f.Between}
	if f.Err != nil {
		w.Unusable = f.Err.Error()
	}
	for _, l := range f.Limits {
		w.Limits = append(w.Limits, Limit(l))
	}
	rules, err := proto.ThresholdsOf(f.Caps)
	if err != nil {
		return w, err
	}
	for _, n := range sizes {
		w.Messages = append(w.Messages, message(f, rules, n))
	}
	return w, nil
}

// message explains one size.
func message(f auto.Path, r proto.Thresholds, n int) Message {
	form := r.Choose(n, f.Stream, f.Cooperative)
	m := Message{Bytes: n, Pieces: r.FragmentCount(form, n)}
	atOnce := r.EagerLimit(f.Stream)
	switch form {
	case proto.Eager:
		m.Protocol = "eager"
		m.Why = fmt.Sprintf("up to %d bytes go at once, copied into one message", r.MaxEager)
		if inline := f.Inline - proto.HeaderBytes; n <= inline {
			m.Protocol = "eager inline"
			m.Why = fmt.Sprintf("up to %d bytes go at once, within the request to the device", inline)
		}
	case proto.Fragmented:
		m.Protocol = "parts"
		m.Why = fmt.Sprintf("up to %d bytes go at once, in messages of %d, of which the receiver copies one while the next is written",
			atOnce, r.FragmentSize)
	case proto.RendezvousShared:
		m.Protocol = "shared"
		m.Why = fmt.Sprintf("more than %d bytes are announced; the receiver reads from the front, the sender writes from the back",
			atOnce)
		if m.Pieces == 1 {
			m.Why = fmt.Sprintf("more than %d bytes are announced; the receiver reads or the sender writes, whoever comes first", atOnce)
		}
	case proto.RendezvousCopy:
		m.Protocol = "copies"
		m.Why = fmt.Sprintf("more than %d bytes are announced, and sent in messages of %d", atOnce, r.MaxData)
	case proto.RendezvousRead:
		m.Protocol = "read"
		m.Why = fmt.Sprintf("more than %d bytes are announced; the receiver reads them from the sender's memory", atOnce)
		switch f.Transport {
		case transports.TCP.String():
			m.Why = fmt.Sprintf("more than %d bytes are announced; the sender's kernel streams them into the receiver's buffer", atOnce)
			if f.Push > 0 {
				m.Why = fmt.Sprintf("more than %d bytes are announced, and up to %d follow at once: a receiver that waits has them "+
					"streamed into its buffer and asks for any others, one that does not drops them and asks later", atOnce, f.Push)
			}
		case transports.RDMA.String():
			m.Protocol, m.Pieces = "rdma read", 0
			m.Why = fmt.Sprintf("more than %d bytes are announced; the receiver's device reads them by RDMA READ", atOnce)
			if f.Piece > 0 {
				m.Pieces = (n + f.Piece - 1) / f.Piece
				m.Why += fmt.Sprintf(", at most %d bytes each", f.Piece)
			}
		}
	}
	return m
}
