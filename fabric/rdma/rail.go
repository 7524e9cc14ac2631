package rdma

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/verbs"
)

// rail is a device of ours with what all connections over it share. Only the first carries messages and datagrams.
type rail struct {
	index    int
	dev      *verbs.Context
	pd       *verbs.PD
	channel  *verbs.Channel
	sent     *verbs.CQ // where sends complete
	got      *verbs.CQ // where messages arrive; of the first rail only
	srq      *verbs.SRQ
	posted   *verbs.QP     // for datagrams
	address  verbs.Address // of that
	qkey     uint32
	port     int
	piece    int  // largest read or write, in bytes
	most     int  // requests that may be under way: each may complete, and there must be room for that
	notified bool // the queue sent tells of its next completion
	alert    bool // the queue got does
}

const (
	sentEntries = 8192 // requests that may be under way over one rail
	greetSlots  = 64   // datagrams that can arrive between two polls
	greetSends  = 16   // datagrams that can be under way
)

// openRail opens a device. At the first, at most srq slots may be posted.
func (t *Transport) openRail(index int, device string, srq int) (*rail, error) {
	name, port, err := cutPort(device)
	if err != nil {
		return nil, err
	}
	dev, err := t.device(name)
	if err != nil {
		return nil, err
	}
	r := &rail{index: index, dev: dev, port: port}
	if err := errors.Join(r.equip(srq), r.openPost(t.qkey())); err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return r, nil
}

// equip makes what the connections of a rail share.
func (r *rail) equip(srq int) error {
	caps, err := r.dev.QueryDevice()
	if err != nil {
		return err
	}
	if r.pd, err = r.dev.AllocPD(); err != nil {
		return err
	}
	if r.channel, err = r.dev.CreateChannel(); err != nil {
		return err
	}
	if r.sent, err = r.dev.CreateCQ(min(sentEntries, int(caps.MaxCQE)), r.channel); err != nil {
		return err
	}
	r.most = r.sent.Len() - greetSends
	if r.index > 0 {
		return nil
	}
	if srq > int(caps.MaxSRQWR) || srq+greetSlots > int(caps.MaxCQE) {
		return fmt.Errorf("%d slots are to be posted, and the device takes %d, and %d completions: make the pool smaller", srq,
			caps.MaxSRQWR, caps.MaxCQE)
	}
	if r.srq, err = r.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: srq}); err != nil {
		return err
	}
	r.got, err = r.dev.CreateCQ(srq+greetSlots, r.channel)
	return err
}

// openPost makes the queue pair for datagrams, by whose address the rail is known.
func (r *rail) openPost(qkey uint32) (err error) {
	if r.sent == nil {
		return nil // equip has failed and said why
	}
	r.qkey = qkey
	if r.port, err = r.activePort(); err != nil {
		return err
	}
	r.posted, err = r.pd.CreateQP(verbs.QPConfig{
		Type: verbs.UD, SendCQ: r.sent, RecvCQ: r.got, MaxSend: greetSends, MaxRecv: greetSlots, QKey: qkey, Port: r.port,
	})
	if err != nil {
		return err
	}
	if err := r.posted.Start(); err != nil {
		return err
	}
	if r.address, err = r.posted.Address(); err != nil {
		return err
	}
	mtu := r.address.MTU.Bytes()
	if mtu < maxGreeting {
		return fmt.Errorf("packets carry %d bytes, and %d are needed: raise the MTU of the device's interface", mtu,
			maxGreeting)
	}
	r.piece = packets * mtu
	return nil
}

// activePort is the port that is asked for, or the first that can be used.
func (r *rail) activePort() (int, error) {
	caps, err := r.dev.QueryDevice()
	if err != nil {
		return 0, err
	}
	for p := 1; p <= int(caps.Ports); p++ {
		if r.port != 0 && r.port != p {
			continue
		}
		if a, err := r.dev.QueryPort(p); err != nil || a.State == verbs.PortActive {
			return p, err
		}
	}
	return 0, fmt.Errorf("%w: no port of %s is active; is the link up?", verbs.ErrUnreachable, r.dev.Name())
}

// packets is how many packets a piece of a transfer has, where nothing else is set: enough for what a piece costs to be
// little, and no more, because all that follows a lost packet is sent again.
const packets = 64

// newQueue makes a queue pair for a connection.
func (r *rail) newQueue(epoch uint32, inline int) (*queue, error) {
	cfg := verbs.QPConfig{
		Type: verbs.RC, SendCQ: r.sent, RecvCQ: r.sent, MaxSend: depth, MaxInline: inline,
		Access: verbs.RemoteRead | verbs.RemoteWrite, MaxRecv: 1, Port: r.port,
	}
	if r.index == 0 {
		cfg.RecvCQ, cfg.SRQ = r.got, r.srq
	}
	qp, err := r.pd.CreateQP(cfg)
	if err != nil {
		return nil, err
	}
	a, err := qp.Address()
	if err != nil {
		return nil, errors.Join(err, qp.Close())
	}
	q := &queue{rail: r, qp: qp, inline: qp.Cap().MaxInline, pair: pair{a.QPN, a.PSN}, epoch: epoch}
	return q, nil
}

// connectable is how a peer's queue pair is reached, given the address of its rail and what it says of the pair.
func connectable(rail verbs.Address, p pair) verbs.Address {
	rail.Type, rail.QPN, rail.PSN, rail.QKey = verbs.RC, p.num, p.psn, 0
	return rail
}
