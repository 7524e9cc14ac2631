package devices

import (
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/verbs"
)

const (
	// DatagramRecvs is how many datagrams can arrive between two Polls in each partition, if the
	// device grants that.
	DatagramRecvs = 64
	// DatagramSends is how many can be in flight, if the device grants that.
	DatagramSends = 16
	// RouteHeaderBytes is the length of the global route header, which the device puts before every
	// datagram.
	RouteHeaderBytes = 40
	// DatagramSlot is the length in bytes of the memory for a datagram.
	DatagramSlot = (RouteHeaderBytes + cm.MaxMessage + 63) &^ 63
)

// datagramRecvs returns how many datagrams can arrive between two Polls.
func (r *Rail) datagramRecvs() int { return len(r.partitions) * DatagramRecvs }

// createDatagramPairs creates the queue pairs for datagrams, and sets the address. On the first
// rail there is a queue pair in each partition; on others there is one, which only has an address.
func (r *Rail) createDatagramPairs() (err error) {
	if r.gid, err = r.indexedGID(); err != nil {
		return err
	}
	for i := range r.partitions {
		if i > 0 && r.Index > 0 {
			break
		}
		if r.partitions[i].ud, err = r.CreateUD(r.SendCQ, r.RecvCQ, DatagramSends, DatagramRecvs, i); err != nil {
			return err
		}
	}
	a, err := r.partitions[0].ud.Address()
	r.Address = r.limitMTU(a)
	return err
}

// CreateUD creates a queue pair for datagrams in a partition, which is an index, and starts it. It
// has room for fewer than so many datagrams if the device grants no more.
func (r *Rail) CreateUD(sendCQ, recvCQ *verbs.CQ, sends, recvs, partition int) (*verbs.QP, error) {
	qp, err := r.PD.CreateQP(verbs.QPConfig{
		Type: verbs.UD, SendCQ: sendCQ, RecvCQ: recvCQ, MaxSend: min(sends, r.Granted.UD),
		MaxRecv: min(recvs, r.Granted.UD), QKey: r.qkey, Port: r.Port,
		PKeyIndex: int(r.partitions[partition].index), GIDIndex: r.choice.GIDIndex, GID: r.gid,
	})
	if err != nil {
		return nil, err
	}
	return qp, qp.Start()
}

// RestartUD resets a queue pair for datagrams after it has failed, or after the key of its
// partition has moved to another index, which is given. The queue pair keeps its number, by which
// peers know it.
func (r *Rail) RestartUD(qp *verbs.QP, index uint16) error {
	if err := qp.Modify(verbs.Attr{State: verbs.StateReset}, verbs.AttrState); err != nil {
		return err
	}
	init := verbs.Attr{State: verbs.StateInit, Port: uint8(r.Port), QKey: r.qkey, PKeyIndex: index}
	if err := qp.Modify(init, verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrPort|verbs.AttrQKey); err != nil {
		return err
	}
	return qp.Start()
}

// UDs returns the queue pairs for datagrams of the first rail, one for each partition.
func (r *Rail) UDs() []*verbs.QP {
	uds := make([]*verbs.QP, len(r.partitions))
	for i := range uds {
		uds[i] = r.partitions[i].ud
	}
	return uds
}

// IsDatagram reports whether a queue pair is one of UDs.
func (r *Rail) IsDatagram(qpn uint32) bool {
	for i := range r.partitions {
		if ud := r.partitions[i].ud; ud != nil && ud.Num() == qpn {
			return true
		}
	}
	return false
}
