package devices

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/verbs"
)

// A domain asks each device once, when it opens: it takes the smaller of its demand and what the
// device grants. A device that grants less than the least that is needed is refused with an [Error].

// Demand is what a domain asks of the device of each rail.
type Demand struct {
	Peers        int // processes that may be connected
	Slots        int // receive slots, of the rail that carries messages
	SharedSlots  int // of them on an SRQ, at most
	BlockSlots   int // slots that are registered at once; the number of all is a multiple of it
	SlotBytes    int // bytes of a slot
	Window       int // messages that a peer may send in advance
	Inline       int // bytes of an inline message
	SGE          int // entries of the scatter/gather list of a READ
	MessageBytes int // the longest datagram of the connection manager
}

// Grant is what the device of a rail grants.
type Grant struct {
	ask    int // inline size that queue pairs are created with
	Inline int // inline size that they have then
	Depth  int // requests in flight on a queue pair of a connection
	SGE    int // entries of the scatter/gather list of a READ
	UD     int // requests, and receives, that may be posted on one for datagrams
	Slots  int // receive slots of the domain
	Window int // messages that a peer may send in advance
}

const (
	// QPDepth is how many requests may be in flight on a queue pair, if the device grants that.
	QPDepth = 64
	// MinDepth is the least of them. With less, messages, transfers and control messages would have
	// no room beside each other.
	MinDepth = 4
)

// checkAttributes returns why a device, by its attributes, cannot serve.
func (r *Rail) checkAttributes(caps *verbs.DeviceAttr, port *verbs.PortAttr, need *Demand) error {
	for _, c := range [...]struct {
		name      string
		has, need int
		why       string
	}{
		{"max_qp_rd_atom", int(caps.MaxQPRdAtom), 1, "it serves no READs"},
		{"max_qp_init_rd_atom", int(caps.MaxQPInitRdAtom), 1, "it sends no READs"},
		{"max_qp", int(caps.MaxQP), 1 + 2*len(r.partitions), "a queue pair for a peer, and two for datagrams in each partition"},
		{"max_qp_wr", int(caps.MaxQPWR), MinDepth, "requests in flight on a queue pair"},
		{"max_sge", int(caps.MaxSGE), 1, "entries of a scatter/gather list"},
		{"max_ah", sizeLimit(uint64(caps.MaxAH)), 2, "an address handle for connection messages, and one for answers to probes"},
		{"max_cqe", int(caps.MaxCQE), DatagramSends + MinDepth, "completions that have not been polled"},
		{"active_mtu", port.ActiveMTU.Bytes(), need.MessageBytes,
			"bytes of a connection message; raise the MTU of the port or of its network interface"},
		{"max_msg_sz", sizeLimit(uint64(port.MaxMsgSize)), need.SlotBytes, "bytes of a message, see IBRUN_RDMA_SLOT"},
		{"max_mr_size", sizeLimit(caps.MaxMRSize), max(need.BlockSlots*need.SlotBytes, (r.datagramRecvs()+DatagramSends)*DatagramSlot),
			"bytes of registered memory, see IBRUN_RDMA_SLOT"},
	} {
		if c.has < c.need {
			return &Error{Device: r.Dev.Name(), Capability: c.name,
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

// createLargest creates an object with n entries. As long as the device refuses the size, it tries
// half of it, at least least.
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

// createReceiveQueues creates the SRQ and the completion queue of the rail that carries messages.
// Without an SRQ every connection has a receive queue of its own, see package rdma.
func (r *Rail) createReceiveQueues(caps *verbs.DeviceAttr, need *Demand) error {
	least := (2*need.Peers + need.BlockSlots) &^ (need.BlockSlots - 1)
	datagrams := r.datagramRecvs()
	most := int(caps.MaxCQE) - datagrams
	g := &r.Granted
	leastShared := min(least, need.SharedSlots)
	if most < least { // so there is no room for queues of their own, and peers share the slots
		leastShared = need.BlockSlots
	}
	if err := r.createSRQ(min(need.Slots, need.SharedSlots, int(caps.MaxSRQWR), most), leastShared, need.BlockSlots); err != nil {
		return err
	}
	g.Window = need.Window
	if r.SRQ == nil {
		g.Slots, g.Window = min(need.Slots, most)&^(need.BlockSlots-1), min(need.Window, int(caps.MaxQPWR)-1)
		if g.Slots < least {
			return &Error{Device: r.Dev.Name(), Capability: "max_cqe", Reason: fmt.Sprintf("the device has %d, but %d are "+
				"needed: for two messages of each of %d peers, and %d datagrams", caps.MaxCQE, least+datagrams, need.Peers, datagrams)}
		}
	}
	var err error
	r.RecvCQ, err = createLargest(g.Slots+datagrams, min(least, g.Slots)+datagrams, func(n int) (*verbs.CQ, error) {
		return r.CreateCQ(n, r.Channel)
	})
	if err != nil {
		return r.Lacks("completion queue", err)
	}
	g.Slots = min(g.Slots, r.RecvCQ.Len()-datagrams) &^ (need.BlockSlots - 1)
	return nil
}

// createSRQ creates the SRQ for n slots, or fewer. It does nothing if the device has none for least
// slots.
func (r *Rail) createSRQ(n, least, block int) error {
	if n < least {
		return nil
	}
	srq, err := createLargest(n, least, func(n int) (*verbs.SRQ, error) {
		return r.PD.CreateSRQ(verbs.SRQConfig{MaxRecv: n})
	})
	switch {
	case err == nil:
		granted, _ := srq.Cap()
		r.SRQ, r.Granted.Slots = srq, min(n, granted)&^(block-1)
	case !isTooMuch(err) && !errors.Is(err, verbs.ErrNotSupported):
		return r.Lacks("shared receive queue", err)
	}
	return nil
}

// probe finds what the device grants to the queue pair of a connection, by creating one: devices do
// not report the largest inline size, and some refuse a queue pair that asks for more. Most devices
// grant everything at once.
func (r *Rail) probe(caps *verbs.DeviceAttr, need *Demand) error {
	g := &r.Granted
	entries := min(need.SGE, int(caps.MaxSGE))
	if caps.MaxSGERd != 0 { // some drivers do not report it
		entries = min(entries, int(caps.MaxSGERd))
	}
	g.ask, g.Depth, g.SGE = need.Inline, min(QPDepth, int(caps.MaxQPWR)), entries
	err := r.tryQueuePair()
	if areSizesRefused(err) {
		err = r.probeLess(need.Inline, entries)
	}
	if err == nil {
		err = r.tryConnection()
	}
	if err != nil {
		return r.Lacks("reliable connections (RC)", err)
	}
	return nil
}

// areSizesRefused reports whether a device may have refused to create a queue pair because of its
// sizes.
func areSizesRefused(err error) bool {
	return err != nil && (isTooMuch(err) || errors.Is(err, verbs.ErrNotSupported))
}

// probeLess is probe for a device that does not grant everything at once.
func (r *Rail) probeLess(inline, entries int) error {
	g := &r.Granted
	g.SGE = 1
	err := r.tryQueuePair()
	if areSizesRefused(err) {
		g.ask = 0
		_, err = createLargest(g.Depth, MinDepth, func(depth int) (struct{}, error) {
			g.Depth = depth
			return struct{}{}, r.tryQueuePair()
		})
	}
	if err != nil {
		return err
	}
	// Finds the largest size between the two. All of it is tried again, since the depth may have
	// been what was refused.
	for refused := inline + 1; g.ask != inline && refused-g.ask > 1; {
		granted := g.ask
		g.ask = (granted + refused) / 2
		if r.tryQueuePair() != nil {
			g.ask, refused = granted, g.ask
		}
	}
	g.SGE = entries // also tried again, and whether the last size was granted
	if err = r.tryQueuePair(); areSizesRefused(err) {
		g.SGE = 1
		err = r.tryQueuePair()
	}
	return err
}

// tryConnection creates a queue pair, connects it to itself, posts a WRITE of no bytes and closes
// it: a device may create queue pairs and refuse all else. Nothing looks at the completion: no
// request of a connection has its ID.
func (r *Rail) tryConnection() error {
	qp, err := r.createQP(&r.partitions[0], r.Index == 0)
	if err != nil {
		return err
	}
	err = connectToSelf(qp, r.params)
	return cmp.Or(err, qp.Close())
}

// IsNoRoute reports whether a call has failed because this host cannot reach its own address. That
// says nothing about the device, nor about peers: while an address of IPv6 is checked for
// duplicates, the kernel has no local route to it, asks the network for it, and gets no answer
// (ETIMEDOUT). If it is the device that does not answer, attempts to connect to peers find that.
func IsNoRoute(err error) bool { return errors.Is(err, verbs.ErrUnreachable) }

// connectToSelf connects a queue pair to itself, and posts a WRITE of no bytes. Without a route it
// does nothing.
func connectToSelf(qp *verbs.QP, params verbs.Params) error {
	own, err := qp.Address()
	if err != nil {
		return err
	}
	if err := qp.ConnectWith(own, params); IsNoRoute(err) {
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
func (r *Rail) tryQueuePair() error {
	qp, err := r.createQP(&r.partitions[0], r.Index == 0)
	if err != nil {
		return err
	}
	r.Granted.Inline = qp.Cap().MaxInline
	return qp.Close()
}
