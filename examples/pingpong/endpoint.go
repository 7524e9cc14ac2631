package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"

	"github.com/ibrun/ibrun/verbs"
)

// qkey is what datagrams carry to be let in. The C programs have agreed on this one.
const qkey = 0x11111111

// routeHeader is how many bytes come before a received datagram: the global route header, which says where it came from.
const routeHeader = 40

// fill is what a message consists of, but for the first byte of each page, which is 0. Those are what the C programs look at.
const (
	fill = 0x7b
	page = 4096
)

// endpoint is our end of the game.
type endpoint struct {
	o     options
	cq    *verbs.CQ
	pairs []*verbs.QP
	local []verbs.Address // of the pairs
	to    verbs.Dest      // of ud: where datagrams go

	// One piece of memory holds everything that is sent or received: a slot for each receive, and behind them the message
	// that the client sends. The IDs of requests name slots. Each slot has one owner: the device while a receive or a send
	// with it is posted, we after its completion was polled.
	memory []byte
	region *verbs.MR
	slot   int // bytes
	header int // of them, before the message

	// Where receives are posted: the queue pair, or the shared receive queue of all pairs.
	receives interface {
		Recv(id uint64, sge ...verbs.SGE) error
	}

	number  map[uint32]int // index of a pair by its number, which is how completions name it
	pending []int          // of the client: how many completions each pair waits for before it sends again

	posted, sent, received int
}

// open makes all that is needed before anything is known about the other side.
func open(dev *verbs.Context, o options) (*endpoint, error) {
	e := &endpoint{o: o, slot: o.size, number: map[uint32]int{}, pending: make([]int, o.pairs)}
	if o.kind == "ud" {
		e.header = routeHeader
		e.slot += routeHeader
	}
	// A device sees registered memory only, and only through the keys of its region. Our peer gets none: it sends, and does not
	// write, so that the right to write locally is enough.
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
	// A completion channel is what one can sleep on. Without one a completion queue can only be polled.
	var ch *verbs.Channel
	if o.events {
		if ch, err = dev.CreateChannel(); err != nil {
			return nil, err
		}
	}
	// Each slot is in one receive or in one send at most, and the client has one send for each pair besides, so this never
	// overruns.
	if e.cq, err = dev.CreateCQ(o.depth+o.pairs, ch); err != nil {
		return nil, err
	}
	if err := e.makePairs(dev, pd); err != nil {
		return nil, err
	}
	// Receives must be there before the peer can send, and it can as soon as it knows our address: to a receiver that is not
	// ready a message over rc is repeated, and one over uc or ud lost.
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
		// Within an InfiniBand subnet the LID is all that is needed, and the C programs then leave the GID out.
		if address.LID != 0 && e.o.gid < 0 {
			address.GID = netip.Addr{}
		}
		e.pairs, e.local, e.number[qp.Num()] = append(e.pairs, qp), append(e.local, address), i
		if cfg.SRQ == nil {
			e.receives = qp
		}
	}
	return nil
}

// gid is the address that was chosen by -g, and not valid where the choice is left to package verbs. Index 0, the default of many
// programs, is often an address that the peer cannot reach.
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

// connect connects our pairs to the peer's. From then on it can send, and we can.
func (e *endpoint) connect(remote []verbs.Address) error {
	for i, qp := range e.pairs {
		a := remote[i]
		// The handshake does not say these, both sides have them from their command lines.
		a.Type, a.MTU, a.QKey = e.o.transport(), e.local[i].MTU, qkey
		var err error
		if a.Type == verbs.UD {
			// Datagrams have no connection. Each says where it goes.
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

// recv lends a slot to the device for a message.
func (e *endpoint) recv(slot uint64) error {
	if e.o.check {
		clear(e.memory[int(slot)*e.slot:][:e.slot]) // what was there before must not pass for what should arrive
	}
	return e.receives.Recv(slot, e.region.SGE(int(slot)*e.slot, e.slot))
}

// checked compares a message that has arrived with what it should be. The client knows: it is what it sent. The server knows
// the bytes at which the C programs look.
func (e *endpoint) checked(slot uint64) error {
	got := e.memory[int(slot)*e.slot+e.header:][:e.o.size]
	if e.o.host != "" && !bytes.Equal(got, e.memory[e.o.depth*e.slot:]) {
		return errors.New("what came back is not what was sent")
	}
	for i := 0; i < len(got); i += page {
		if got[i] != 0 {
			return fmt.Errorf("byte %d is %#x, and should be 0; does the other side have -c?", i, got[i])
		}
	}
	return nil
}
