package rdma

import (
	"errors"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
)

// rail is a device of this process with what the domain knows of it and does with it. Only the first rail carries messages and
// datagrams.
//
// If Serialized is set, requests are posted to queue pairs with domain.mu held, and receives by the goroutine that calls Poll.
// That goroutine creates, connects and closes them, and changes their state, while endpoint.canPost is false. It is not set if a
// doorbell is a system call: that is made without domain.mu.
type rail struct {
	devices.Rail
	piece int            // largest RDMA read or write, in bytes
	limit [numShares]int // requests that may be in flight on a queue pair, by share
	// maxUnsignaled is how many requests in a row have one completion, at most. Those without fill no share of the queue: a
	// message that found no room would wait for a completion that never comes.
	maxUnsignaled int
	// signalAll is how many requests are in flight over the first rail when each further message has a completion. One without
	// keeps its place and its slot until a later request of the same queue pair completes, and there may be thousands of queue
	// pairs. So the other half of the room is always left for requests that complete.
	signalAll  int
	lastRecvID uint32 // id of the last messages.Queue
	leftOut    leftOut
	portDown   bool // the device has reported that the link is down
	lost       bool // the device is lost; never set on the first rail
}

// share is a purpose of requests. Each purpose may use a share of the send queue, so that something is left for the next ones.
type share uint8

const (
	shareMessages  share = iota // data messages
	shareTransfers              // pieces of transfers
	shareAll                    // control messages, messages that are sent again
	numShares
)

// sharesOf returns how many requests may be in flight when one of a share is posted: 40, 56 and 64 of 64.
func sharesOf(depth int) [numShares]int { return [...]int{depth * 5 / 8, depth * 7 / 8, depth} }

// newDemand returns the demand of a process of a job of size processes.
func newDemand(set *Settings, size int) devices.Demand {
	rails := len(set.Devices)
	return devices.Demand{Peers: size - 1, Slots: messages.MaxReceives(set.poolSlots(), size), SharedSlots: messages.MaxShared,
		BlockSlots: messages.BlockSlots, SlotBytes: set.Slot, Window: set.Window, Inline: set.Inline, SGE: maxScattered,
		MessageBytes: cm.MessageBytes(set.numLanes(rails), rails)}
}

// openRail opens a device, and creates what the connections of the rail share.
func (t *Transport) openRail(device string, cfg *devices.Config) (*rail, error) {
	r := new(rail)
	if err := r.Open(t.network(), device, cfg); err != nil {
		return nil, errors.Join(exported(err), r.Close())
	}
	r.limit = sharesOf(r.Granted.Depth)
	r.maxUnsignaled = min(maxUnsignaled, r.limit[shareMessages])
	r.setPiece(piecePackets * r.Address.MTU.Bytes())
	return r, nil
}

// piecePackets is the default size of a piece of a transfer, in packets: large enough that the cost per piece is small, but no
// larger, because everything behind a lost packet is sent again.
const piecePackets = 64

// setPiece sets the size of a piece, at most what the device grants.
func (r *rail) setPiece(bytes int) { r.piece = min(bytes, r.MaxPiece) }

// newQueuePair creates the queue pair for a path of a connection to a peer.
func (r *rail) newQueuePair(epoch uint32, path uint8, peer *cm.RailAddress) (*queuePair, error) {
	l := cm.Lane{Rail: uint8(r.Index), Path: path}
	qp, err := r.CreateQP(peer, l == cm.Lane{})
	if err != nil {
		return nil, exported(err)
	}
	a, err := qp.Address()
	if err != nil {
		return nil, errors.Join(err, qp.Close())
	}
	q := &queuePair{rail: r, qp: qp, inline: qp.Cap().MaxInline, info: cm.QP{QPN: a.QPN, PSN: a.PSN, Lane: l}, epoch: epoch,
		requests: make([]request, fewRequests)}
	if q.isMessages() && r.SRQ == nil {
		r.lastRecvID++
		q.recvs = messages.NewQueue(qp, r.lastRecvID, r.Granted.Window+1)
	}
	return q, nil
}

// devicesOf returns the devices of rails.
func devicesOf(rails []*rail) devices.Rails {
	list := make(devices.Rails, len(rails))
	for i, r := range rails {
		list[i] = &r.Rail
	}
	return list
}
