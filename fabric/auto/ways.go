package auto

import (
	"cmp"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma"
	"github.com/ibrun/ibrun/fabric/shm"
	"github.com/ibrun/ibrun/fabric/tcp"
)

// Way is one of the ways that a message can take between two processes.
type Way struct {
	// Transport is its name in [ParseTransports], and Between says which processes are meant.
	Transport, Between string
	// Caps and Stream are what a domain of the transport and its endpoints say, and Paired whether it is a fabric.Pairer.
	Caps   fabric.Caps
	Stream int
	// Push is how much of a message goes along with its announcement at most, 0 if none does.
	Push   int
	Paired bool
	// Inline is the longest message of Caps that the device takes within its request; 0 where there is no device.
	Inline int
	// Piece is the longest read of the device, into which longer ones are split; 0 where it is not known, or there is none.
	Piece int
	// Limits are the numbers behind all this, as they are in force.
	Limits []Limit
	// Err says why the transport cannot be used on this machine. The numbers are then what would hold otherwise.
	Err error
}

// Limit is a number of bytes that decides how messages travel.
type Limit struct {
	Name  string
	Bytes int
	// Source says where the number comes from: a default, an environment variable, or a device.
	Source string
	// Variable is the environment variable that changes it, and Field that of [Thresholds]; empty if none does.
	Variable, Field string
}

// Ways returns those of the transports that may be used, the best first. It finds out what works on this machine, as Open would.
// The error says which setting makes no sense.
func (n Node) Ways() ([]Way, error) {
	var ws []Way
	far := "ranks of different nodes"
	if !n.may("shm") {
		far = "all ranks"
	}
	if n.may("shm") {
		ws = append(ws, n.shared("ranks of one node whose cores are near", shm.StreamNear),
			n.shared("ranks of one node whose cores are far apart", shm.StreamFar))
	}
	if n.may("rdma") {
		w, err := n.remote()
		if err != nil {
			return nil, err
		}
		w.Between = far
		ws = append(ws, w)
		far += " without RDMA"
	}
	if n.may("tcp") {
		t := n.tcp()
		ws = append(ws, Way{
			Transport: "tcp", Between: far, Caps: t.Caps(), Push: t.Pushes(), Err: t.Probe(),
			Limits: []Limit{
				{"message", t.Caps().MaxSend, "format", "", ""},
				{"eager", t.Caps().Eager, source(n.Thresholds.TCPEager, tcpEager), tcpEager, "TCPEager"},
				{"push", t.Pushes(), source(n.Thresholds.TCPPush, tcpPush), tcpPush, "TCPPush"},
			},
		})
	}
	return ws, nil
}

// shared is the way through shared memory, with the default for what goes in parts.
func (n Node) shared(between string, stream int) Way {
	t := n.shm()
	stream = cmp.Or(t.Stream, stream)
	return Way{
		Transport: "shm", Between: between, Caps: t.Caps(), Stream: stream, Paired: true, Err: t.Probe(),
		Limits: []Limit{
			{"message", t.Caps().MaxSend, "fixed", "", ""},
			{"stream", stream, source(n.Thresholds.ShmStream, shmStream), shmStream, "ShmStream"},
		},
	}
}

// remote is the way over RDMA.
func (n Node) remote() (Way, error) {
	l, err := n.rdma().Limits()
	s := l.Settings
	if s.Slot == 0 {
		return Way{}, err // a setting makes no sense
	}
	w := Way{
		Transport: "rdma", Caps: s.Caps(), Stream: s.Stream,
		Inline: s.Inline - rdma.HeaderBytes, Piece: s.Piece, Err: err,
	}
	for _, f := range []Limit{
		{"slot", s.Slot, "Slot", "IBRUN_RDMA_SLOT", ""},
		{"inline", s.Inline, "Inline", "IBRUN_RDMA_INLINE", "RDMAInline"},
		{"eager", s.Eager, "Eager", "IBRUN_RDMA_EAGER", "RDMAEager"},
		{"stream", s.Stream, "Stream", "IBRUN_RDMA_STREAM", "RDMAStream"},
		{"piece", s.Piece, "Piece", "IBRUN_RDMA_PIECE", "RDMAPiece"},
	} {
		f.Source = l.Sources[f.Source]
		w.Limits = append(w.Limits, f)
	}
	return w, nil
}

func source(set int, variable string) string {
	if set != 0 {
		return variable
	}
	return "default"
}

// The transports with the settings of the node.

func (n Node) shm() *shm.Transport {
	return &shm.Transport{Local: n.Local, Key: n.Key, Tracer: n.Tracer, Stream: n.Thresholds.ShmStream}
}

func (n Node) rdma() *rdma.Transport {
	return &rdma.Transport{Key: n.Key, Near: n.Devices, Settings: n.Thresholds.settings()}
}

func (n Node) tcp() *tcp.Transport {
	return &tcp.Transport{Key: n.Key, Interfaces: n.Interfaces, Eager: n.Thresholds.TCPEager, Push: n.Thresholds.TCPPush}
}
