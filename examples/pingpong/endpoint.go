package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"

	"github.com/ibrun/ibrun/verbs"
)

// qkey is the Q_Key of the datagrams. A queue pair drops datagrams with another one. The C programs use this value.
const qkey = 0x11111111

// routeHeader is the size of the global route header, which precedes each received datagram and contains its source.
const routeHeader = 40

// All bytes of a message are fill, apart from the first byte of each page, which is 0: the C programs check these.
const (
	fill = 0x7b
	page = 4096
)

// endpoint is the local side.
type endpoint struct {
	o     options
	cq    *verbs.CQ
	qps   []*verbs.QP
	local []verbs.Address // addresses of qps
	to    verbs.Dest      // with ud: the destination of datagrams

	// One buffer holds everything that is sent or received: a slot for each receive, and behind the slots the message that the
	// client sends. The IDs of requests are the numbers of slots. A slot belongs to the device while a receive or a send of it
	// is posted, and to this program after the completion was polled.
	memory []byte
	region *verbs.MR
	slot   int // bytes
	header int // bytes of a slot before the message

	// receives is where receives are posted: the queue pair, or the shared receive queue of all queue pairs.
	receives interface {
		Recv(id uint64, sge ...verbs.SGE) error
	}

	number  map[uint32]int // index of a queue pair by its number, which completions contain
	pending []int          // client only: completions that each queue pair waits for before it sends again

	posted, sent, received int
}

// open creates everything that does not depend on the other side.
func open(dev *verbs.Context, o options) (*endpoint, error) {
	e := &endpoint{o: o, slot: o.size, number: map[uint32]int{}, pending: make([]int, o.pairs)}
	if o.kind == "ud" {
		e.header = routeHeader
		e.slot += routeHeader
	}
	// A device can access only registered memory, and needs the keys of its region. The peer gets no key: it sends and does not
	// write, so the right for local writes is enough.
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, err
	}
	e.memory = make([]byte, o.depth*e.slot+o.size)
	if e.region, err = pd.Register(e.memory, verbs.LocalWrite); err != nil {
		return nil, err
	}
	message := e.memory[o.depth*e.slot:]
	for i := range message {
		message[i] = fill
		if o.check && i%page == 0 {
			message[i] = 0
		}
	}
	// A completion channel allows sleeping until there is a completion. Without one, a completion queue can only be polled.
	var ch *verbs.Channel
	if o.events {
		if ch, err = dev.CreateChannel(); err != nil {
			return nil, err
		}
	}
	// Each slot is in at most one receive or send, and the client has one more send for each queue pair. So the completion
	// queue never overruns.
	if e.cq, err = dev.CreateCQ(o.depth+o.pairs, ch); err != nil {
		return nil, err
	}
	if err := e.makePairs(dev, pd); err != nil {
		return nil, err
	}
	// Receives must be posted before the peer can send, which is as soon as it knows our address. If the receiver is not ready
	// (RNR), a message over rc is sent again, and a message over uc or ud is lost.
	for i := range o.depth {
		if err := e.recv(uint64(i)); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (e *endpoint) makePairs(dev *verbs.Context, pd *verbs.PD) error {
	gid, err := e.gid(dev)
	if err != nil {
		return err
	}
	cfg := verbs.QPConfig{Type: e.o.transport(), SendCQ: e.cq, MaxSend: e.o.depth, MaxRecv: e.o.depth,
		Port: e.o.port, QKey: qkey, GID: gid}
	if e.o.kind == "srq" {
		if cfg.SRQ, err = pd.CreateSRQ(verbs.SRQConfig{MaxRecv: e.o.depth}); err != nil {
			return err
		}
		e.receives = cfg.SRQ
	}
	for i := range e.o.pairs {
		qp, err := pd.CreateQP(cfg)
		if err != nil {
			return err
		}
		address, err := qp.Address()
		if err != nil {
			return err
		}
		// Within an InfiniBand subnet the LID is sufficient, and the C programs then omit the GID.
		if address.LID != 0 && e.o.gid < 0 {
			address.GID = netip.Addr{}
		}
		e.qps, e.local, e.number[qp.Num()] = append(e.qps, qp), append(e.local, address), i
		if cfg.SRQ == nil {
			e.receives = qp
		}
	}
	return nil
}

// gid returns the address that -g selects. Without -g it returns the zero Addr, so that package verbs chooses one. Index 0, the
// default of many programs, is often an address that the peer cannot reach.
func (e *endpoint) gid(dev *verbs.Context) (netip.Addr, error) {
	if e.o.gid < 0 {
		return netip.Addr{}, nil
	}
	gids, err := dev.GIDs(max(e.o.port, 1))
	if err != nil {
		return netip.Addr{}, err
	}
	for _, g := range gids {
		if g.Index == e.o.gid {
			return g.Addr, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("-g %d: the port has only %v", e.o.gid, gids)
}

// connect connects our queue pairs to those of the peer. From then on both sides can send.
func (e *endpoint) connect(remote []verbs.Address) error {
	for i, qp := range e.qps {
		a := remote[i]
		// The handshake does not contain these. Both sides know them from their command lines.
		a.Type, a.MTU, a.QKey = e.o.transport(), e.local[i].MTU, qkey
		var err error
		if a.Type == verbs.UD {
			// Datagrams have no connection. Each has its own destination.
			if err = qp.Start(); err == nil {
				e.to, err = qp.Dest(a)
			}
		} else {
			p := verbs.DefaultParams()
			p.MTU = e.o.pathMTU()
			err = qp.ConnectWith(a, p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// recv posts a receive into a slot.
func (e *endpoint) recv(slot uint64) error {
	if e.o.check {
		clear(e.memory[int(slot)*e.slot:][:e.slot]) // old contents must not be mistaken for a new message
	}
	return e.receives.Recv(slot, e.region.SGE(int(slot)*e.slot, e.slot))
}

// checkMessage checks a message that has arrived. The client compares it with the message that it has sent. The server checks
// the same bytes as the C programs.
func (e *endpoint) checkMessage(slot uint64) error {
	got := e.memory[int(slot)*e.slot+e.header:][:e.o.size]
	if e.o.host != "" && !bytes.Equal(got, e.memory[e.o.depth*e.slot:]) {
		return errors.New("the answer differs from the message that was sent")
	}
	for i := 0; i < len(got); i += page {
		if got[i] != 0 {
			return fmt.Errorf("byte %d is %#x, want 0; does the other side have -c?", i, got[i])
		}
	}
	return nil
}
