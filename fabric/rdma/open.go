package rdma

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/datagrams"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/transfer"
	"github.com/ibrun/ibrun/verbs"
)

func open(t *Transport, cfg *fabric.Config, set Settings) (_ fabric.Domain, err error) {
	var nonce [8]byte
	rand.Read(nonce[:]) // never returns an error
	d := &domain{
		self: cfg.Self, size: cfg.Size, settings: set,
		eps:      make(peers, cfg.Size),
		clock:    liveness.Clock{Next: liveness.Never, Start: time.Now()},
		liveness: liveness.NewLimits(set.Heartbeat), closeTimeout: closeTimeout,
	}
	params := set.connParams()
	d.join(params, t.Report)
	d.cm.Link = t.selected.Chosen.Link()
	d.cm.Identity = datagrams.Identity{Key: t.Key, Self: uint32(d.self), Size: uint32(d.size),
		Incarnation: binary.LittleEndian.Uint64(nonce[:]) | 1}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.release())
		}
	}()
	config := devices.Config{Place: t.place, QKey: t.qkey(), Params: params, Choice: set.choice(),
		Demand: newDemand(&set, cfg.Size)}
	for i, name := range set.Devices {
		config.Index = i
		r, err := t.openRail(name, &config)
		if err != nil {
			return nil, openError(err)
		}
		if set.Piece != 0 {
			r.setPiece(set.Piece)
		}
		d.rails = append(d.rails, r)
	}
	d.cm.rails, d.completions.all, d.completions.live = d.rails, d.rails, d.rails
	d.settings.Inline, d.settings.Window = d.rails[0].Granted.Inline, d.rails[0].Granted.Window
	d.poster.Init(serialize(d.rails))
	lost := func(rail int, err error) error { return d.completions.railLost(d.rails[rail], err) }
	if err := d.sleeper.Open(sleepRails(d.rails), lost, t.Report); err != nil {
		return nil, err
	}
	pd, all := d.rails[0].PD, devicesOf(d.rails)
	d.recvs = messages.Receives{Slots: messages.Slots{PD: pd, Bytes: set.Slot, Limit: d.rails[0].Granted.Slots}, SRQ: d.rails[0].SRQ,
		Pool: set.poolSlots(), Peers: cfg.Size - 1, Window: uint32(d.settings.Window)}
	d.recvs.SendCredit = func(p *messages.Peer) { d.eps[p.Number].sendControl(messages.Credit) }
	d.poster.Sends = messages.Slots{PD: pd, Bytes: set.Slot, Limit: max(set.poolSlots(), 2*messages.BlockSlots)}
	first := &d.rails[0].room
	first.SignalAll = min(first.MaxInFlight, d.poster.Sends.Limit) / 2
	if err := d.poster.Sends.Grow(); err != nil {
		return nil, exported(d.rails[0].Lacks("registered memory", err))
	}
	if err := d.cm.Open(all, params, d.sleeper.WakeArmed, d.eps.forgetConnected); err != nil {
		return nil, exported(d.rails[0].Lacks("datagrams (UD)", err))
	}
	d.regions.Init(d.cm.Incarnation, func(b []byte) (transfer.Registration, error) { return register(all, b) })
	if len(d.rails) > 1 {
		if err = d.regions.OpenTable(pd); err == nil {
			err = d.poster.KeyReads.Open(pd)
		}
		if err != nil {
			return nil, exported(d.rails[0].Lacks("registered memory", err))
		}
	}
	d.caps = set.Caps()
	d.events.Loopback.Bytes = d.caps.MaxSend
	d.cm.Start()
	d.addr = d.cm.Address()
	d.deviceEvents.Start(all, func() { _ = d.sleeper.Wake() }) // if that fails, the next Poll finds the event
	return d, nil
}

// join gives the parts of the domain what they need of the others. The rails are not open yet.
func (d *domain) join(params verbs.Params, report func(text string)) {
	m := &d.cm
	m.settings, m.params, m.eps, m.endpointOf, m.report = &d.settings, params, d.eps, d.endpointOf, report
	m.poster, m.recvs, m.clock, m.limits = &d.poster, &d.recvs, &d.clock, &d.liveness
	d.completions = completions{eps: d.eps, cm: m, poster: &d.poster, recvs: &d.recvs, events: &d.events, sleeper: &d.sleeper,
		clock: &d.clock}
	d.takeover.cm = m
}

// serialize decides when doorbells are rung: with each request if that is a store on all rails. Then the queue pairs are
// serialized by the lock of the poster. It reports whether a doorbell is a call. It must be called before a connection is made.
func serialize(rails []*rail) (byCall bool) {
	byCall = slices.ContainsFunc(rails, func(r *rail) bool { return r.Dev.DoorbellIsCall() })
	for _, r := range rails {
		r.Serialized = !byCall
	}
	return byCall
}

// openError returns the error of Open for a device that could not be opened.
func openError(err error) error {
	if d := new(DeviceError); errors.As(err, &d) {
		return err
	}
	return fmt.Errorf("fabric/rdma: %w", err)
}

// regionAccess is the access to memory that the caller registers. The bus may reorder what devices write to it: nobody polls the
// memory, and the completion of a READ, or of the message by which the writer says that a WRITE has finished, is written after
// the data. The package's own memory is registered without that: there is nothing to gain.
const regionAccess = verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite | verbs.RelaxedOrdering

// register registers memory with the device of every rail.
func register(rails devices.Rails, b []byte) (reg transfer.Registration, err error) {
	for i, r := range rails {
		if len(b) > r.MaxRegion { // a message of this length is sent in fragments
			return transfer.Registration{}, errors.Join(fmt.Errorf("device %s registers at most %d bytes (max_mr_size): %w",
				r.Dev.Name(), r.MaxRegion, syscall.EOPNOTSUPP), reg.Close())
		}
		mr, err := r.PD.Register(b, regionAccess)
		if i > 0 && errors.Is(err, verbs.ErrDeviceLost) {
			continue // connections do without the rail
		}
		if err != nil {
			return transfer.Registration{}, errors.Join(err, reg.Close())
		}
		reg.MRs[i], reg.Keys[i] = mr, transfer.MemoryKeys{Local: mr.LKey(), Remote: mr.RKey()}
	}
	return reg, nil
}
