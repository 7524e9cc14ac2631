package rdma

import (
	"errors"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
)

// rail is a device of this process with what the domain knows of it and does with it. Only the first rail carries messages and
// datagrams.
//
// If Serialized is set, requests are posted to queue pairs with the lock of the poster held, and receives by the goroutine that
// calls Poll. That goroutine creates, connects and closes them, and changes their state, while Lanes.CanPost is false. It is not
// set if a doorbell is a system call: that is made without the lock.
type rail struct {
	devices.Rail
	room       posting.Rail // for requests of connections. Lost is never set on the first rail
	lastRecvID uint32       // id of the last messages.Queue
	leftOut    leftOut
	portDown   bool // the device has reported that the link is down
}

// newDemand returns the demand of a process of a job of size processes.
func newDemand(set *Settings, size int) devices.Demand {
	rails := len(set.Devices)
	return devices.Demand{Peers: size - 1, Slots: messages.MaxReceives(set.poolSlots(), size), SharedSlots: messages.MaxShared,
		BlockSlots: messages.BlockSlots, SlotBytes: set.Slot, Window: set.Window, Inline: set.Inline, SGE: posting.MaxEntries,
		MessageBytes: cm.MessageBytes(set.numLanes(rails), rails)}
}

// openRail opens a device, and creates what the connections of the rail share.
func (t *Transport) openRail(device string, cfg *devices.Config) (*rail, error) {
	r := new(rail)
	if err := r.Open(t.network(), device, cfg); err != nil {
		return nil, errors.Join(exported(err), r.Close())
	}
	r.room = posting.Rail{Index: r.Index, Entries: r.Granted.SGE, MaxInFlight: r.MaxInFlight, Shared: r.SRQ != nil,
		KeepsCompletions: r.Dev.KeepsCompletions()}
	r.room.SetDepth(r.Granted.Depth)
	r.setPiece(piecePackets * r.Address.MTU.Bytes())
	return r, nil
}

// piecePackets is the default size of a piece of a transfer, in packets: large enough that the cost per piece is small, but no
// larger, because everything behind a lost packet is sent again.
const piecePackets = 64

// setPiece sets the size of a piece, at most what the device grants.
func (r *rail) setPiece(bytes int) { r.room.Piece = min(bytes, r.MaxPiece) }

// newQueuePair creates the queue pair for a path of a connection to a peer.
func (r *rail) newQueuePair(to int, epoch uint32, path uint8, peer *cm.RailAddress) (*posting.QueuePair, error) {
	l := cm.Lane{Rail: uint8(r.Index), Path: path}
	first := l == cm.Lane{}
	qp, err := r.CreateQP(peer, first)
	if err != nil {
		return nil, exported(err)
	}
	a, err := qp.Address()
	if err != nil {
		return nil, errors.Join(err, qp.Close())
	}
	var recvs *messages.Queue
	if first && r.SRQ == nil {
		r.lastRecvID++
		recvs = messages.NewQueue(qp, r.lastRecvID, r.Granted.Window+1)
	}
	return posting.NewQueuePair(qp, &r.room, cm.QP{QPN: a.QPN, PSN: a.PSN, Lane: l}, to, epoch, recvs), nil
}

// devicesOf returns the devices of rails.
func devicesOf(rails []*rail) devices.Rails {
	list := make(devices.Rails, len(rails))
	for i, r := range rails {
		list[i] = &r.Rail
	}
	return list
}
