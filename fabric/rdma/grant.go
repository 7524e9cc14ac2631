package rdma

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/verbs"
)

// Devices differ in their limits by factors of a thousand, and some limits show only when an object is created. So a domain asks
// each device once, when it opens: it takes the smaller of its demand and what the device grants. A device that grants less than
// the least that is needed is refused with a DeviceError.

// demand is what a domain asks of the device of each rail.
type demand struct {
	settings *Settings
	peers    int // processes that may be connected
	rails    int // of the domain
	slots    int // receive slots, of the rail that carries messages
	slot     int // bytes of a slot
	window   int // messages that a peer may send in advance
	inline   int // bytes of an inline message
}

// newDemand returns the demand of a process of a job of size processes.
func newDemand(set *Settings, size int) *demand {
	return &demand{settings: set, peers: size - 1, rails: len(set.Devices), slots: maxRecvSlots(set, size), slot: set.Slot,
		window: set.Window, inline: set.Inline}
}

// grant is what the device of a rail grants.
type grant struct {
	ask    int // inline size that queue pairs are created with
	inline int // inline size that they have then
	depth  int // requests in flight on a queue pair of a connection
	sge    int // entries of the scatter/gather list of a READ
	ud     int // requests, and receives, that may be posted on one for datagrams
	slots  int // receive slots of the domain
	window int // messages that a peer may send in advance
}

const (
	qpDepth  = 64 // requests that may be in flight on a queue pair, if the device grants that
	minDepth = 4  // with less, messages, transfers and control messages would have no room beside each other
)

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

// checkAttributes returns why a device, by its attributes, cannot serve.
func (r *rail) checkAttributes(caps *verbs.DeviceAttr, port *verbs.PortAttr, need *demand) error {
	for _, c := range [...]struct {
		name      string
		has, need int
		why       string
	}{
		{"max_qp_rd_atom", int(caps.MaxQPRdAtom), 1, "it serves no READs"},
		{"max_qp_init_rd_atom", int(caps.MaxQPInitRdAtom), 1, "it sends no READs"},
		{"max_qp", int(caps.MaxQP), 1 + 2*len(r.partitions), "a queue pair for a peer, and two for datagrams in each partition"},
		{"max_qp_wr", int(caps.MaxQPWR), minDepth, "requests in flight on a queue pair"},
		{"max_sge", int(caps.MaxSGE), 1, "entries of a scatter/gather list"},
		{"max_ah", sizeLimit(uint64(caps.MaxAH)), 2, "an address handle for connection messages, and one for answers to probes"},
		{"max_cqe", int(caps.MaxCQE), cmSends + minDepth, "completions that have not been polled"},
		{"active_mtu", port.ActiveMTU.Bytes(), cm.MessageBytes(need.settings.numLanes(need.rails), need.rails),
			"bytes of a connection message; raise the MTU of the port or of its network interface"},
		{"max_msg_sz", sizeLimit(uint64(port.MaxMsgSize)), need.slot, "bytes of a message, see IBRUN_RDMA_SLOT"},
		{"max_mr_size", sizeLimit(caps.MaxMRSize), max(messages.BlockSlots*need.slot, (r.datagramRecvs()+cmSends)*cmSlotBytes),
			"bytes of registered memory, see IBRUN_RDMA_SLOT"},
	} {
		if c.has < c.need {
			return &DeviceError{Device: r.dev.Name(), Capability: c.name,
				Reason: fmt.Sprintf("the device has %d, but %d are needed: %s", c.has, c.need, c.why)}
		}
	}
	return nil
}

// sizeLimit converts a limit. Some drivers report 0 if there is none.
func sizeLimit(n uint64) int {
	const most = 1 << 40
	if n == 0 || n > most {
		return most
	}
	return int(n)
}

// createLargest creates an object with n entries. As long as the device refuses the size, it tries half of it, at least least.
func createLargest[T any](n, least int, create func(n int) (T, error)) (T, error) {
	for {
		o, err := create(n)
		if err == nil || n/2 < least || !isTooMuch(err) {
			return o, err
		}
		n /= 2
	}
}

// isTooMuch reports whether a device may have refused to create an object because of its size.
func isTooMuch(err error) bool {
	return errors.Is(err, verbs.ErrInvalid) || errors.Is(err, verbs.ErrLimit)
}

// createReceiveQueues creates the SRQ and the completion queue of the rail that carries messages. Without an SRQ every
// connection has a receive queue of its own, see recvQueue.
func (r *rail) createReceiveQueues(caps *verbs.DeviceAttr, need *demand) error {
	least := (2*need.peers + messages.BlockSlots) &^ (messages.BlockSlots - 1)
	datagrams := r.datagramRecvs()
	most := int(caps.MaxCQE) - datagrams
	g := &r.granted
	leastShared := min(least, maxSharedSlots)
	if most < least { // so there is no room for queues of their own, and peers share the slots
		leastShared = messages.BlockSlots
	}
	if err := r.createSRQ(min(need.slots, maxSharedSlots, int(caps.MaxSRQWR), most), leastShared); err != nil {
		return err
	}
	g.window = need.window
	if r.srq == nil {
		g.slots, g.window = min(need.slots, most)&^(messages.BlockSlots-1), min(need.window, int(caps.MaxQPWR)-1)
		if g.slots < least {
			return &DeviceError{Device: r.dev.Name(), Capability: "max_cqe", Reason: fmt.Sprintf("the device has %d, but %d are "+
				"needed: for two messages of each of %d peers, and %d datagrams", caps.MaxCQE, least+datagrams, need.peers, datagrams)}
		}
	}
	var err error
	r.recvCQ, err = createLargest(g.slots+datagrams, min(least, g.slots)+datagrams, func(n int) (*verbs.CQ, error) {
		return r.createCQ(n, r.channel)
	})
	if err != nil {
		return r.lacks("completion queue", err)
	}
	g.slots = min(g.slots, r.recvCQ.Len()-datagrams) &^ (messages.BlockSlots - 1)
	return nil
}

// createSRQ creates the SRQ for n slots, or fewer. It does nothing if the device has none for least slots.
func (r *rail) createSRQ(n, least int) error {
	if n < least {
		return nil
	}
	srq, err := createLargest(n, least, func(n int) (*verbs.SRQ, error) {
		return r.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: n})
	})
	switch {
	case err == nil:
		granted, _ := srq.Cap()
		r.srq, r.granted.slots = srq, min(n, granted)&^(messages.BlockSlots-1)
	case !isTooMuch(err) && !errors.Is(err, verbs.ErrNotSupported):
		return r.lacks("shared receive queue", err)
	}
	return nil
}

// probe finds what the device grants to the queue pair of a connection, by creating one: devices do not report the largest
// inline size, and some refuse a queue pair that asks for more. Most devices grant everything at once.
func (r *rail) probe(caps *verbs.DeviceAttr, inline int) error {
	g := &r.granted
	entries := min(maxScattered, int(caps.MaxSGE))
	if caps.MaxSGERd != 0 { // some drivers do not report it
		entries = min(entries, int(caps.MaxSGERd))
	}
	g.ask, g.depth, g.sge = inline, min(qpDepth, int(caps.MaxQPWR)), entries
	err := r.tryQueuePair()
	if areSizesRefused(err) {
		err = r.probeLess(inline, entries)
	}
	if err == nil {
		err = r.tryConnection()
	}
	if err != nil {
		return r.lacks("reliable connections (RC)", err)
	}
	r.limit = sharesOf(g.depth)
	r.maxUnsignaled = min(maxUnsignaled, r.limit[shareMessages])
	return nil
}

// areSizesRefused reports whether a device may have refused to create a queue pair because of its sizes.
func areSizesRefused(err error) bool {
	return err != nil && (isTooMuch(err) || errors.Is(err, verbs.ErrNotSupported))
}

// probeLess is probe for a device that does not grant everything at once.
func (r *rail) probeLess(inline, entries int) error {
	g := &r.granted
	g.sge = 1
	err := r.tryQueuePair()
	if areSizesRefused(err) {
		g.ask = 0
		_, err = createLargest(g.depth, minDepth, func(depth int) (struct{}, error) {
			g.depth = depth
			return struct{}{}, r.tryQueuePair()
		})
	}
	if err != nil {
		return err
	}
	// Finds the largest size between the two. All of it is tried again, since the depth may have been what was refused.
	for refused := inline + 1; g.ask != inline && refused-g.ask > 1; {
		granted := g.ask
		g.ask = (granted + refused) / 2
		if r.tryQueuePair() != nil {
			g.ask, refused = granted, g.ask
		}
	}
	g.sge = entries // also tried again, and whether the last size was granted
	if err = r.tryQueuePair(); areSizesRefused(err) {
		g.sge = 1
		err = r.tryQueuePair()
	}
	return err
}

// tryConnection creates a queue pair, connects it to itself, posts a WRITE of no bytes and closes it: a device may create queue
// pairs and refuse all else. Nothing looks at the completion: no request of a connection has its ID.
func (r *rail) tryConnection() error {
	qp, err := r.createQueuePair(&r.partitions[0], r.index == 0)
	if err != nil {
		return err
	}
	err = connectToSelf(qp, r.set.connParams())
	return cmp.Or(err, qp.Close())
}

// isNoRoute reports whether a call has failed because this host cannot reach its own address. That says nothing about the device,
// nor about peers: while an address of IPv6 is checked for duplicates, the kernel has no local route to it, asks the network for
// it, and gets no answer (ETIMEDOUT). If it is the device that does not answer, attempts to connect to peers find that.
func isNoRoute(err error) bool { return errors.Is(err, verbs.ErrUnreachable) }

// connectToSelf connects a queue pair to itself, and posts a WRITE of no bytes. Without a route it does nothing.
func connectToSelf(qp *verbs.QP, params verbs.Params) error {
	own, err := qp.Address()
	if err != nil {
		return err
	}
	if err := qp.ConnectWith(own, params); isNoRoute(err) {
		return nil
	} else if err != nil {
		return err
	}
	if err := qp.Write(0, verbs.Signaled, verbs.Remote{}); err != nil {
		return err
	}
	return qp.Ring()
}

// tryQueuePair creates a queue pair with the grant, and closes it again.
func (r *rail) tryQueuePair() error {
	qp, err := r.createQueuePair(&r.partitions[0], r.index == 0)
	if err != nil {
		return err
	}
	r.granted.inline = qp.Cap().MaxInline
	return qp.Close()
}
