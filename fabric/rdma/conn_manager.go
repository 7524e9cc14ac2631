package rdma

import (
	"cmp"
	"errors"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/fabric/rdma/internal/memory"
	"github.com/ibrun/ibrun/verbs"
)

// connManager sends and receives the datagrams that connect and disconnect peers (see cm.Message), over the UD queue pairs of the
// first rail, of which there is one in each partition. It also lists the endpoints that have something to do with connections.
type connManager struct {
	connecting   connectTimers // of peers that were sent a REQ or a REP, or are to be sent a REQ after a pause
	anyRequested atomic.Bool   // requested is not empty; atomic, so that Poll reads it without the lock
	failed       bool          // a UD queue pair has failed: a datagram was sent while the link was down
	refusal      error         // why the last recovery has failed; nil if it has not
	failures     []connFailure
	closing      teardowns
	notices      []*endpoint // peers without a connection that must be notified of Close
	requested    []*endpoint // are to be connected to; guarded by domain.mu

	uds        []*verbs.QP // see devices.Rail.UDs
	mem        []byte      // DatagramRecvs slots to receive for each queue pair, and then DatagramSends slots to send
	mr         *verbs.MR
	recvs      uint32       // receives that are posted to each queue pair, at most devices.DatagramRecvs
	sends      uint32       // datagrams that can be in flight, at most devices.DatagramSends
	firstSend  uint32       // number of the first slot to send
	freeSends  []uint32     // slots from which no datagram is being sent
	generation uint32       // how often the queue pairs were recovered; completions of earlier generations are ignored
	received   []cm.Message // not handled yet
}

func (m *connManager) open(r *rail) (err error) {
	m.uds = r.UDs()
	c := m.uds[0].Cap()
	m.recvs, m.sends = uint32(min(devices.DatagramRecvs, c.MaxRecv)), uint32(min(devices.DatagramSends, c.MaxSend))
	m.firstSend = uint32(len(m.uds) * devices.DatagramRecvs)
	if m.mem, err = memory.Map((int(m.firstSend) + devices.DatagramSends) * devices.DatagramSlot); err != nil {
		return err
	}
	if m.mr, err = r.PD.Register(m.mem, verbs.LocalWrite); err != nil {
		return err
	}
	return m.postAll()
}

// postAll posts all receive slots, and marks all send slots as free.
func (m *connManager) postAll() error {
	for first := uint32(0); first < m.firstSend; first += devices.DatagramRecvs {
		for i := range m.recvs {
			if err := m.postRecv(first + i); err != nil {
				return err
			}
		}
	}
	m.freeAllSends()
	return nil
}

// freeAllSends marks all send slots as free.
func (m *connManager) freeAllSends() {
	m.freeSends = m.freeSends[:0]
	for i := range m.sends {
		m.freeSends = append(m.freeSends, m.firstSend+i)
	}
}

// wrID returns the work request ID of a slot.
func (m *connManager) wrID(i uint32) uint64 { return uint64(m.generation)<<32 | uint64(i) }

// slot returns the memory of a slot.
func (m *connManager) slot(i uint32) []byte {
	return m.mem[i*devices.DatagramSlot:][:devices.DatagramSlot:devices.DatagramSlot]
}

// postRecv posts a slot for the next datagram.
func (m *connManager) postRecv(i uint32) error {
	return m.uds[i/devices.DatagramRecvs].Recv(m.wrID(i), m.mr.SGE(int(i)*devices.DatagramSlot, devices.DatagramSlot))
}

// handleDatagram handles the completion of a datagram that has arrived.
func (d *domain) handleDatagram(wc *verbs.WC) {
	d.fastPolls = 0
	if d.cm.handleReceive(d, wc); d.cm.failed {
		d.clock.Next = 0
	}
}

// handleDatagramSent handles the completion of a datagram that was sent.
func (d *domain) handleDatagramSent(wc *verbs.WC) {
	if d.cm.handleSend(wc); d.cm.failed {
		d.clock.Next = 0
	}
}

// handleReceive queues a datagram. It is handled later, since that may close connections over which more has arrived.
func (m *connManager) handleReceive(d *domain, wc *verbs.WC) {
	i := uint32(wc.ID)
	if wc.ID != m.wrID(i) {
		return
	}
	if wc.Status != verbs.StatusSuccess {
		m.failed = true // recover posts it again, with all others
		return
	}
	if wc.Len > devices.RouteHeaderBytes && wc.Len <= devices.DatagramSlot {
		// Datagrams without a valid MAC of this job are ignored: any host can send them.
		if msg, err := cm.ParseMessage(m.slot(i)[devices.RouteHeaderBytes:wc.Len], &d.key); err == nil {
			msg.Address = append([]byte(nil), msg.Address...)
			m.received = append(m.received, msg)
		}
	}
	m.failed = m.postRecv(i) != nil || m.failed // a lost device is reported by polling its completion queue
}

// handleReceived handles the datagrams that have arrived.
func (m *connManager) handleReceived(d *domain) error {
	for len(m.received) > 0 {
		msg := m.received[0]
		if m.received = m.received[1:]; len(m.received) == 0 {
			m.received = nil
		}
		if err := d.handleCM(&msg); err != nil {
			return err
		}
	}
	return nil
}

// errNoSendSlot means that no datagram can be sent now, because so many are in flight, or because the queue pairs are to be
// restarted by the next tick.
var errNoSendSlot = errors.New("all slots for datagrams are in use")

// send sends a datagram. It returns an error if there is no route to the peer, or errNoSendSlot. If the device refuses to send
// it, or to restart the queue pairs, the error is a setUpError.
func (m *connManager) send(d *domain, e *endpoint, msg *cm.Message) error {
	to, err := d.destination(e)
	if err != nil {
		return err
	}
	if len(m.freeSends) == 0 {
		return errNoSendSlot
	}
	dest := to.Dest
	if msg.Kind == cm.Probe {
		dest.QPN = to.responder
	}
	i := m.freeSends[len(m.freeSends)-1]
	n := len(msg.Append(m.slot(i)[:0], &d.key))
	if err := to.ud.SendTo(m.wrID(i), verbs.Signaled, dest, m.mr.SGE(int(i)*devices.DatagramSlot, n)); err != nil {
		if m.failed && m.refusal == nil && errors.Is(err, verbs.ErrState) {
			return errNoSendSlot
		}
		return &setUpError{cmp.Or(m.refusal, err)} // without a restart, the state is what forbids to send
	}
	err = to.ud.Ring()
	if e := (*verbs.Error)(nil); !errors.As(err, &e) || e.Dropped == 0 { // else it never completes
		m.freeSends = m.freeSends[:len(m.freeSends)-1]
	}
	if err != nil {
		return &setUpError{err}
	}
	return nil
}

// handleSend frees the slot from which a datagram was sent.
func (m *connManager) handleSend(wc *verbs.WC) {
	i := uint32(wc.ID)
	if wc.ID != m.wrID(i) {
		return
	}
	m.freeSends = append(m.freeSends, i)
	m.failed = m.failed || wc.Status != verbs.StatusSuccess
}

// recover resets the UD queue pairs after one has failed. They keep their numbers, by which peers know them. The reset
// drops all posted requests. Some of them have completed, the others never will, so all receives are posted again under the
// next generation.
func (m *connManager) recover(r *rail) error {
	indices := r.Indices()
	for i, ud := range m.uds {
		if err := r.RestartUD(ud, indices[i]); err != nil {
			return err
		}
	}
	m.generation++
	if err := m.postAll(); err != nil {
		return err
	}
	m.failed = false
	return nil
}

// sendCM sends a datagram to a peer. It may be lost, so its sender must be prepared to send it again.
func (d *domain) sendCM(e *endpoint, kind cm.Kind, reqQP cm.QP) error {
	msg := d.newCM(e, kind, reqQP)
	return d.cm.send(d, e, &msg)
}

// newCM returns a datagram to a peer.
func (d *domain) newCM(e *endpoint, kind cm.Kind, reqQP cm.QP) cm.Message {
	msg := cm.Message{
		Kind: kind, From: uint32(d.self), To: uint32(e.peer), Size: uint32(d.size), Epoch: e.conn.Epoch,
		FromIncarnation: d.incarnation, ToIncarnation: e.addr.Incarnation, NextSeq: e.in.Received, Grant: e.in.Granted,
		Lanes: uint8(len(e.qps)), ReqQP: reqQP, Address: d.present, Keys: d.keys,
		Returned: e.returned, MTU: e.mtu,
	}
	for i, q := range e.qps {
		msg.Pairs[i] = q.info
	}
	switch kind {
	case cm.DREQ:
		msg.Grant = e.out.Sent
	case cm.Probe:
		msg.NextSeq, msg.Grant = e.retry.silence.Probe, 0
	}
	return msg
}

// trySendCM is sendCM for datagrams that answer a REQ, or that the peer can do without. An error is like a datagram that is
// lost: the peer sends its REQ again, or finds by probes that this process has gone. It may ask why over another transport.
func (d *domain) trySendCM(e *endpoint, kind cm.Kind, reqQP cm.QP) {
	d.answered(e, d.sendCM(e, kind, reqQP))
}

// answered records whether an answer to the peer could be sent.
func (d *domain) answered(e *endpoint, err error) {
	if err != errNoSendSlot && e.conn.State != cm.StateEstablished {
		d.noteSent(e, err)
	}
}

// noteSent records the result of sending a datagram that makes a connection.
func (d *domain) noteSent(e *endpoint, err error) {
	e.retry.err = err
	if err == errResolving {
		e.retry.err = nil
	}
	if isRefusal(err) {
		d.attemptRefused(e, err)
	}
}
