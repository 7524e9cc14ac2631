package rdma

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/verbs"
)

// rail is a device of this process with the resources that all connections over it share. Only the first rail carries messages
// and datagrams.
type rail struct {
	index       int
	dev         *verbs.Context
	pd          *verbs.PD
	channel     *verbs.Channel
	sendCQ      *verbs.CQ
	recvCQ      *verbs.CQ // of the first rail only
	srq         *verbs.SRQ
	ud          *verbs.QP     // for datagrams of the connection manager; its address identifies the rail
	address     verbs.Address // of ud
	qkey        uint32
	port        int
	piece       int  // largest RDMA read or write, in bytes
	maxInFlight int  // requests that may be in flight: sendCQ must have room for all their completions
	sendArmed   bool // sendCQ reports its next completion
	recvArmed   bool // recvCQ reports its next completion
}

// sendCQEntries is how many requests may be in flight over one rail.
const sendCQEntries = 8192

// openRail opens a device. srq is how many receives may be posted to the SRQ of the first rail.
func (t *Transport) openRail(index int, device string, srq int) (*rail, error) {
	name, port, err := splitPort(device)
	if err != nil {
		return nil, err
	}
	dev, err := t.network().Open(name)
	if err != nil {
		return nil, err
	}
	r := &rail{index: index, dev: dev, port: port}
	if err := errors.Join(r.createResources(srq), r.createUD(t.qkey())); err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return r, nil
}

// createResources creates what the connections of a rail share.
func (r *rail) createResources(srq int) error {
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
	if r.sendCQ, err = r.dev.CreateCQ(min(sendCQEntries, int(caps.MaxCQE)), r.channel); err != nil {
		return err
	}
	r.maxInFlight = r.sendCQ.Len() - cmSends
	if r.index > 0 {
		return nil
	}
	if srq > int(caps.MaxSRQWR) || srq+cmRecvs > int(caps.MaxCQE) {
		return fmt.Errorf("%d receive slots are needed, but the device supports %d posted receives and %d completions: "+
			"set a smaller IBRUN_RDMA_POOL", srq, caps.MaxSRQWR, caps.MaxCQE)
	}
	if r.srq, err = r.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: srq}); err != nil {
		return err
	}
	r.recvCQ, err = r.dev.CreateCQ(srq+cmRecvs, r.channel)
	return err
}

// createUD creates the queue pair for datagrams.
func (r *rail) createUD(qkey uint32) (err error) {
	if r.sendCQ == nil {
		return nil // createResources has failed and returned the error
	}
	r.qkey = qkey
	if r.port, err = r.activePort(); err != nil {
		return err
	}
	r.ud, err = r.pd.CreateQP(verbs.QPConfig{
		Type: verbs.UD, SendCQ: r.sendCQ, RecvCQ: r.recvCQ, MaxSend: cmSends, MaxRecv: cmRecvs, QKey: qkey, Port: r.port,
	})
	if err != nil {
		return err
	}
	if err := r.ud.Start(); err != nil {
		return err
	}
	if r.address, err = r.ud.Address(); err != nil {
		return err
	}
	mtu := r.address.MTU.Bytes()
	if mtu < maxCMMessage {
		return fmt.Errorf("packets carry %d bytes, but %d are needed: raise the MTU of the device's interface", mtu, maxCMMessage)
	}
	r.piece = piecePackets * mtu
	return nil
}

// restartUD resets a queue pair for datagrams after it has failed. The queue pair keeps its number, by which peers know it.
func (r *rail) restartUD(qp *verbs.QP) error {
	if err := qp.Modify(verbs.Attr{State: verbs.StateReset}, verbs.AttrState); err != nil {
		return err
	}
	init := verbs.Attr{State: verbs.StateInit, Port: uint8(r.port), QKey: r.qkey}
	if err := qp.Modify(init, verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrPort|verbs.AttrQKey); err != nil {
		return err
	}
	return qp.Start()
}

// activePort returns the configured port, or the first one that can be used.
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

// piecePackets is the default size of a piece of a transfer, in packets: large enough that the cost per piece is small, but no
// larger, because everything behind a lost packet is sent again.
const piecePackets = 64

// newQueuePair creates a queue pair for a connection.
func (r *rail) newQueuePair(epoch uint32, inline int) (*queuePair, error) {
	cfg := verbs.QPConfig{
		Type: verbs.RC, SendCQ: r.sendCQ, RecvCQ: r.sendCQ, MaxSend: qpDepth, MaxInline: inline,
		Access: verbs.RemoteRead | verbs.RemoteWrite, MaxRecv: 1, Port: r.port,
	}
	if r.index == 0 {
		cfg.RecvCQ, cfg.SRQ = r.recvCQ, r.srq
	}
	qp, err := r.pd.CreateQP(cfg)
	if err != nil {
		return nil, err
	}
	a, err := qp.Address()
	if err != nil {
		return nil, errors.Join(err, qp.Close())
	}
	q := &queuePair{rail: r, qp: qp, inline: qp.Cap().MaxInline, info: qpInfo{a.QPN, a.PSN}, epoch: epoch,
		requests: make([]request, fewRequests)}
	return q, nil
}

// qpAddress returns the address of a peer's queue pair, given the address of its rail.
func qpAddress(rail verbs.Address, p qpInfo) verbs.Address {
	rail.Type, rail.QPN, rail.PSN, rail.QKey = verbs.RC, p.qpn, p.psn, 0
	return rail
}
