package devices

import (
	"fmt"
	"net/netip"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/verbs"
)

// Rail is an open device of this process with the resources that all connections over it share.
// Only the first rail carries messages and datagrams.
//
// The fields are constant once the rail is open, apart from Address, Serialized and the indices of
// its partitions. Another goroutine may use the partitions' keys only.
type Rail struct {
	Index       int
	Dev         *verbs.Context
	Port        int
	InfiniBand  bool // the port is one of an InfiniBand network
	PD          *verbs.PD
	Channel     *verbs.Channel
	SendCQ      *verbs.CQ
	RecvCQ      *verbs.CQ  // of the first rail only
	SRQ         *verbs.SRQ // of the first rail only, and nil if the device has none
	Granted     Grant
	MaxPiece    int // the largest RDMA read or write that the device can carry out, in bytes
	MaxRegion   int // largest registration, in bytes
	MaxInFlight int // requests of connections in flight: SendCQ has room for their completions

	// Address is that of the first queue pair for datagrams; it identifies the rail. Refresh
	// changes it.
	Address verbs.Address
	// Serialized is [verbs.QPConfig.Serialized] of the queue pairs for connections that are created
	// from now on.
	Serialized bool

	place      int // see Config
	qkey       uint32
	params     verbs.Params
	choice     Choice
	gid        netip.Addr // see indexedGID
	partitions []partition
}

// Config says how a rail is opened.
type Config struct {
	Index  int          // of the rail
	Place  int          // of this process among those of its node
	QKey   uint32       // of datagrams
	Params verbs.Params // of connections
	Choice
	Demand
}

// sendCQEntries is how many requests may be in flight over one rail.
const sendCQEntries = 8192

// Open opens a device, which is named as in [SplitPort], and creates what the connections of the
// rail share. The caller must call Close also if it fails. If the device cannot serve, the error is
// an [*Error], which no other error wraps.
func (r *Rail) Open(n Network, device string, cfg *Config) error {
	name, port, err := SplitPort(device)
	if err != nil {
		return err
	}
	if r.Dev, err = n.Open(name); err != nil {
		return &Error{Device: name, Capability: "open", Err: err}
	}
	r.Index, r.Port, r.place, r.qkey, r.params, r.choice = cfg.Index, port, cfg.Place, cfg.QKey, cfg.Params, cfg.Choice
	return r.create(&cfg.Demand)
}

// Close closes the device, if it is open, with everything that was created on it.
func (r *Rail) Close() error {
	if r.Dev == nil {
		return nil
	}
	return r.Dev.Close()
}

// create creates what the connections of a rail share, as large as the device grants.
func (r *Rail) create(need *Demand) error {
	caps, err := r.Dev.QueryDevice()
	if err != nil {
		return r.Lacks("attributes", err)
	}
	if r.Port, err = r.activePort(&caps); err != nil {
		return err
	}
	port, err := r.Dev.QueryPort(r.Port)
	if err != nil {
		return r.Lacks("port", err)
	}
	r.InfiniBand = port.IsInfiniBand()
	if err := r.findPartitions(&port); err != nil {
		return r.Lacks("partition", err)
	}
	if err := r.checkAttributes(&caps, &port, need); err != nil {
		return err
	}
	if err := r.createResources(&caps, need); err != nil {
		return err
	}
	if err := r.probe(&caps, need); err != nil {
		return err
	}
	r.Granted.UD = int(caps.MaxQPWR)
	if err := r.createDatagramPairs(); err != nil {
		return r.Lacks("datagrams (UD)", err)
	}
	r.MaxPiece, r.MaxRegion = sizeLimit(uint64(port.MaxMsgSize)), sizeLimit(caps.MaxMRSize)
	return nil
}

// createResources creates the objects that queue pairs need.
func (r *Rail) createResources(caps *verbs.DeviceAttr, need *Demand) (err error) {
	if r.PD, err = r.Dev.AllocPD(); err != nil {
		return r.Lacks("protection domain", err)
	}
	if r.Channel, err = r.Dev.CreateChannel(); err != nil {
		return r.Lacks("completion channel", err)
	}
	r.SendCQ, err = createLargest(min(sendCQEntries, int(caps.MaxCQE)), DatagramSends+MinDepth, func(n int) (*verbs.CQ, error) {
		return r.CreateCQ(n, r.Channel)
	})
	if err != nil {
		return r.Lacks("completion queue", err)
	}
	r.MaxInFlight = r.SendCQ.Len() - DatagramSends
	if r.Index == 0 {
		if err := r.createReceiveQueues(caps, need); err != nil {
			return err
		}
	}
	return r.Lacks("completion events", r.requestEvents())
}

// requestEvents makes the completion queues report their first completion. A device that refuses
// that could wake nobody.
func (r *Rail) requestEvents() error {
	if err := r.SendCQ.Notify(false); err != nil || r.RecvCQ == nil {
		return err
	}
	return r.RecvCQ.Notify(false)
}

// activePort returns the configured port, or the first one that can be used.
func (r *Rail) activePort(caps *verbs.DeviceAttr) (int, error) {
	lacks := &Error{Device: r.Dev.Name(), Capability: "port", Reason: "no port is active; is the link up?"}
	if r.Port > int(caps.Ports) {
		lacks.Reason = fmt.Sprintf("%s:%d is demanded, but its ports are 1 to %d", r.Dev.Name(), r.Port, caps.Ports)
		return 0, lacks
	}
	for p := 1; p <= int(caps.Ports); p++ {
		if r.Port != 0 && r.Port != p {
			continue
		}
		a, err := r.Dev.QueryPort(p)
		if err != nil {
			return 0, r.Lacks("port", err)
		}
		if a.State == verbs.PortActive {
			return p, nil
		}
	}
	if r.Port > 0 {
		lacks.Reason = fmt.Sprintf("%s:%d is demanded, but is not active; is its link up?", r.Dev.Name(), r.Port)
	}
	return 0, lacks
}

// Lacks returns an [*Error] for err, nil for nil. capability is what could not be created.
func (r *Rail) Lacks(capability string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Device: r.Dev.Name(), Capability: capability, Err: err}
}

// CreateCQ creates a completion queue that wakes this process by an interrupt that it shares with
// few others of its node.
func (r *Rail) CreateCQ(n int, ch *verbs.Channel) (*verbs.CQ, error) {
	return r.Dev.CreateCQVector(n, ch, r.place%r.Dev.CompVectors())
}

// CreateQP creates the queue pair for a lane of a connection to a peer, in the partition of the
// peer. messages says that it may receive messages, up to [Grant].Window and one more if there is
// no SRQ.
func (r *Rail) CreateQP(peer *cm.RailAddress, messages bool) (*verbs.QP, error) {
	i, _, err := r.SharedPartition(peer)
	if err != nil {
		return nil, err
	}
	return r.createQP(&r.partitions[i], messages)
}

// createQP creates a queue pair of the sizes that the device grants, in a partition.
func (r *Rail) createQP(p *partition, messages bool) (*verbs.QP, error) {
	cfg := verbs.QPConfig{
		Type: verbs.RC, SendCQ: r.SendCQ, RecvCQ: r.SendCQ, MaxSend: r.Granted.Depth, MaxInline: r.Granted.ask,
		MaxSendSGE: r.Granted.SGE,
		Access:     verbs.RemoteRead | verbs.RemoteWrite, MaxRecv: 1, Port: r.Port,
		PKeyIndex: int(p.index), GIDIndex: r.choice.GIDIndex, GID: r.gid, Serialized: r.Serialized,
	}
	if messages {
		cfg.RecvCQ, cfg.SRQ = r.RecvCQ, r.SRQ
		if r.SRQ == nil {
			cfg.MaxRecv = r.Granted.Window + 1
		}
	}
	return r.PD.CreateQP(cfg)
}

// PathParams returns the parameters of a connection to a rail of a peer over a path. Both ends
// choose the same MTU and path. The flow label of path 0 is 0: the kernel or the device chooses the
// UDP source port. flow is that of [FlowOf].
func (r *Rail) PathParams(p verbs.Params, peer *cm.RailAddress, path uint8, flow uint32) verbs.Params {
	p.MTU, p.Path = min(r.Address.MTU, peer.MTU), path
	if path > 0 {
		p.FlowLabel = flow<<3&maxFlowLabel | uint32(path)
	}
	return p
}

// maxFlowLabel is the largest flow label. Its lowest 14 bits, in which the paths differ, become
// part of the UDP source port.
const maxFlowLabel = 1<<20 - 1

// FlowOf returns a number that differs from pair to pair of processes, and is the same at both
// ends.
func FlowOf(a, b uint32) uint32 {
	return (min(a, b)*0x9e3779b1 ^ max(a, b)*0x85ebca6b) >> 15
}
