package rdma

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/verbs"
)

// rail is a device of this process with the resources that all connections over it share. Only the first rail carries messages
// and datagrams.
type rail struct {
	index       int
	place       int // of this process among those of its node
	dev         *verbs.Context
	pd          *verbs.PD
	channel     *verbs.Channel
	sendCQ      *verbs.CQ
	recvCQ      *verbs.CQ     // of the first rail only
	srq         *verbs.SRQ    // of the first rail only, and nil if the device has none
	partitions  []partition   // of the port
	address     verbs.Address // of the first queue pair for datagrams; identifies the rail
	gid         netip.Addr    // see indexedGID
	infiniBand  bool          // the port is one of an InfiniBand network
	set         *Settings
	qkey        uint32
	port        int
	piece       int            // largest RDMA read or write, in bytes
	maxPiece    int            // largest one that the device can carry out
	maxRegion   int            // largest registration, in bytes
	limit       [numShares]int // requests that may be in flight on a queue pair, by share
	maxInFlight int            // requests that may be in flight on all: sendCQ must have room for their completions
	granted     grant
	// maxUnsignaled is how many requests in a row have one completion, at most. Those without fill no share of the queue: a
	// message that found no room would wait for a completion that never comes.
	maxUnsignaled int
	// signalAll is how many requests are in flight over the first rail when each further message has a completion. One without
	// keeps its place and its slot until a later request of the same queue pair completes, and there may be thousands of queue
	// pairs. So the other half of the room is always left for requests that complete.
	signalAll  int
	lastRecvID uint32 // recvQueue.id of the last one
	// serialized is [verbs.QPConfig.Serialized] of the queue pairs of connections. Their requests are posted with domain.mu held,
	// and their receives by the goroutine that calls Poll. That goroutine creates, connects and closes them, and changes their
	// state, while endpoint.canPost is false. It is not set if a doorbell is a system call: that is made without domain.mu.
	serialized bool
	leftOut    leftOut
	portDown   bool // the device has reported that the link is down
	lost       bool // the device is lost; never set on the first rail
	sendArmed  bool // sendCQ reports its next completion
	recvArmed  bool // recvCQ reports its next completion
	// sendRefused and recvRefused are how often in a row the device has refused to report the next completion.
	sendRefused, recvRefused int
}

// sendCQEntries is how many requests may be in flight over one rail.
const sendCQEntries = 8192

// openRail opens a device, and creates what the connections of the rail share.
func (t *Transport) openRail(index int, device string, need *demand) (*rail, error) {
	name, port, err := devices.SplitPort(device)
	if err != nil {
		return nil, err
	}
	dev, err := t.network().Open(name)
	if err != nil {
		return nil, &DeviceError{Device: name, Capability: "open", Err: err}
	}
	r := &rail{index: index, place: t.place, dev: dev, port: port, set: need.settings, qkey: t.qkey()}
	if err := r.create(need); err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return r, nil
}

// create creates what the connections of a rail share, as large as the device grants.
func (r *rail) create(need *demand) error {
	caps, err := r.dev.QueryDevice()
	if err != nil {
		return r.lacks("attributes", err)
	}
	if r.port, err = r.activePort(&caps); err != nil {
		return err
	}
	port, err := r.dev.QueryPort(r.port)
	if err != nil {
		return r.lacks("port", err)
	}
	if err := r.findPartitions(&port); err != nil {
		return r.lacks("partition", err)
	}
	if err := r.checkAttributes(&caps, &port, need); err != nil {
		return err
	}
	if err := r.createResources(&caps, need); err != nil {
		return err
	}
	if err := r.probe(&caps, need.inline); err != nil {
		return err
	}
	r.granted.ud = int(caps.MaxQPWR)
	if err := r.createDatagramPairs(); err != nil {
		return r.lacks("datagrams (UD)", err)
	}
	r.maxPiece, r.maxRegion = sizeLimit(uint64(port.MaxMsgSize)), sizeLimit(caps.MaxMRSize)
	r.setPiece(piecePackets * r.address.MTU.Bytes())
	return nil
}

// setPiece sets the size of a piece, at most what the device grants.
func (r *rail) setPiece(bytes int) { r.piece = min(bytes, r.maxPiece) }

// createResources creates the objects that queue pairs need.
func (r *rail) createResources(caps *verbs.DeviceAttr, need *demand) (err error) {
	if r.pd, err = r.dev.AllocPD(); err != nil {
		return r.lacks("protection domain", err)
	}
	if r.channel, err = r.dev.CreateChannel(); err != nil {
		return r.lacks("completion channel", err)
	}
	r.sendCQ, err = createLargest(min(sendCQEntries, int(caps.MaxCQE)), cmSends+minDepth, func(n int) (*verbs.CQ, error) {
		return r.createCQ(n, r.channel)
	})
	if err != nil {
		return r.lacks("completion queue", err)
	}
	r.maxInFlight = r.sendCQ.Len() - cmSends
	if r.index == 0 {
		if err := r.createReceiveQueues(caps, need); err != nil {
			return err
		}
	}
	return r.lacks("completion events", r.requestEvents())
}

// requestEvents makes the completion queues report their first completion. A device that refuses that could wake nobody.
func (r *rail) requestEvents() error {
	if err := r.sendCQ.Notify(false); err != nil {
		return err
	}
	r.sendArmed = true
	if r.recvCQ == nil {
		return nil
	}
	err := r.recvCQ.Notify(false)
	r.recvArmed = err == nil
	return err
}

// activePort returns the configured port, or the first one that can be used.
func (r *rail) activePort(caps *verbs.DeviceAttr) (int, error) {
	lacks := &DeviceError{Device: r.dev.Name(), Capability: "port", Reason: "no port is active; is the link up?"}
	if r.port > int(caps.Ports) {
		lacks.Reason = fmt.Sprintf("%s:%d is demanded, but its ports are 1 to %d", r.dev.Name(), r.port, caps.Ports)
		return 0, lacks
	}
	for p := 1; p <= int(caps.Ports); p++ {
		if r.port != 0 && r.port != p {
			continue
		}
		a, err := r.dev.QueryPort(p)
		if err != nil {
			return 0, r.lacks("port", err)
		}
		if a.State == verbs.PortActive {
			return p, nil
		}
	}
	if r.port > 0 {
		lacks.Reason = fmt.Sprintf("%s:%d is demanded, but is not active; is its link up?", r.dev.Name(), r.port)
	}
	return 0, lacks
}

// piecePackets is the default size of a piece of a transfer, in packets: large enough that the cost per piece is small, but no
// larger, because everything behind a lost packet is sent again.
const piecePackets = 64

// pathParams returns the parameters of a connection to a rail of a peer over a path. Both ends choose the same MTU and path.
// The flow label of path 0 is 0: the kernel or the device chooses the UDP source port.
func (r *rail) pathParams(p verbs.Params, peer *cm.RailAddress, path uint8, flow uint32) verbs.Params {
	p.MTU, p.Path = min(r.address.MTU, peer.MTU), path
	if path > 0 {
		p.FlowLabel = flow<<3&maxFlowLabel | uint32(path)
	}
	return p
}

// maxFlowLabel is the largest flow label. Its lowest 14 bits, in which the paths differ, become part of the UDP source port.
const maxFlowLabel = 1<<20 - 1

// flowOf returns a number that differs from pair to pair of processes, and is the same at both ends.
func flowOf(a, b uint32) uint32 {
	return (min(a, b)*0x9e3779b1 ^ max(a, b)*0x85ebca6b) >> 15
}

// createCQ creates a completion queue that wakes this process by an interrupt that it shares with few others of its node.
func (r *rail) createCQ(n int, ch *verbs.Channel) (*verbs.CQ, error) {
	return r.dev.CreateCQVector(n, ch, r.place%r.dev.CompVectors())
}

// newQueuePair creates the queue pair for a path of a connection, in the partition of the peer, or in the first one if there is
// no peer.
func (r *rail) newQueuePair(epoch uint32, path uint8, peer *cm.RailAddress) (*queuePair, error) {
	p := &r.partitions[0]
	if peer != nil {
		i, _, err := r.sharedPartition(peer)
		if err != nil {
			return nil, err
		}
		p = &r.partitions[i]
	}
	l := cm.Lane{Rail: uint8(r.index), Path: path}
	qp, err := r.createQueuePair(p, l == cm.Lane{})
	if err != nil {
		return nil, err
	}
	a, err := qp.Address()
	if err != nil {
		return nil, errors.Join(err, qp.Close())
	}
	q := &queuePair{rail: r, qp: qp, inline: qp.Cap().MaxInline, info: cm.QP{QPN: a.QPN, PSN: a.PSN, Lane: l}, epoch: epoch,
		requests: make([]request, fewRequests)}
	if q.isMessages() && r.srq == nil {
		r.lastRecvID++
		q.recvs = newRecvQueue(qp, r.lastRecvID, r.granted.window+1)
	}
	return q, nil
}

// createQueuePair creates a queue pair of the sizes that the device grants, in a partition. It may receive messages.
func (r *rail) createQueuePair(p *partition, messages bool) (*verbs.QP, error) {
	cfg := verbs.QPConfig{
		Type: verbs.RC, SendCQ: r.sendCQ, RecvCQ: r.sendCQ, MaxSend: r.granted.depth, MaxInline: r.granted.ask,
		MaxSendSGE: r.granted.sge,
		Access:     verbs.RemoteRead | verbs.RemoteWrite, MaxRecv: 1, Port: r.port,
		PKeyIndex: int(p.index), GIDIndex: r.set.GIDIndex, GID: r.gid, Serialized: r.serialized,
	}
	if messages {
		cfg.RecvCQ, cfg.SRQ = r.recvCQ, r.srq
		if r.srq == nil {
			cfg.MaxRecv = r.granted.window + 1
		}
	}
	return r.pd.CreateQP(cfg)
}

// qpAddress returns the address of a peer's queue pair, given the address of its rail.
func qpAddress(rail verbs.Address, p cm.QP) verbs.Address {
	rail.Type, rail.QPN, rail.PSN, rail.QKey = verbs.RC, p.QPN, p.PSN, 0
	return rail
}
