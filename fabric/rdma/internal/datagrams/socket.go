package datagrams

import (
	"cmp"
	"errors"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/fabric/rdma/internal/memory"
	"github.com/ibrun/ibrun/verbs"
)

// Socket sends and receives the datagrams of the connection manager, over the UD queue pairs of the
// first rail, of which there is one in each partition.
type Socket struct {
	// Failed says that the queue pairs are to be restarted by Recover: a datagram was sent while
	// the link was down, or the key of a partition has another index.
	Failed  bool
	Refusal error // why the last Recover has failed; nil if it has not

	rail       *devices.Rail
	key        [32]byte    // of the job
	uds        []*verbs.QP // see devices.Rail.UDs
	mem        []byte      // DatagramRecvs slots to receive for each queue pair, then DatagramSends to send
	mr         *verbs.MR
	recvs      uint32       // receives that are posted to each queue pair, at most DatagramRecvs
	sends      uint32       // datagrams that can be in flight, at most DatagramSends
	firstSend  uint32       // number of the first slot to send
	freeSends  []uint32     // slots from which no datagram is being sent
	generation uint32       // how often they were recovered; completions of earlier ones are ignored
	received   []cm.Message // were not returned by Next yet
}

// Open posts receives to the queue pairs of the first rail. key is that of the job.
func (s *Socket) Open(r *devices.Rail, key [32]byte) (err error) {
	s.rail, s.key, s.uds = r, key, r.UDs()
	c := s.uds[0].Cap()
	s.recvs, s.sends = uint32(min(devices.DatagramRecvs, c.MaxRecv)), uint32(min(devices.DatagramSends, c.MaxSend))
	s.firstSend = uint32(len(s.uds) * devices.DatagramRecvs)
	if s.mem, err = memory.Map((int(s.firstSend) + devices.DatagramSends) * devices.DatagramSlot); err != nil {
		return err
	}
	if s.mr, err = r.PD.Register(s.mem, verbs.LocalWrite); err != nil {
		return err
	}
	return s.postAll()
}

// Unmap frees the memory. The device must be closed.
func (s *Socket) Unmap() {
	if s.mem != nil {
		memory.Unmap(s.mem)
		s.mem = nil
	}
}

// postAll posts all receive slots, and marks all send slots as free.
func (s *Socket) postAll() error {
	for first := uint32(0); first < s.firstSend; first += devices.DatagramRecvs {
		for i := range s.recvs {
			if err := s.postRecv(first + i); err != nil {
				return err
			}
		}
	}
	s.freeSends = s.freeSends[:0]
	for i := range s.sends {
		s.freeSends = append(s.freeSends, s.firstSend+i)
	}
	return nil
}

// wrID returns the work request ID of a slot.
func (s *Socket) wrID(i uint32) uint64 { return uint64(s.generation)<<32 | uint64(i) }

// slot returns the memory of a slot.
func (s *Socket) slot(i uint32) []byte {
	return s.mem[i*devices.DatagramSlot:][:devices.DatagramSlot:devices.DatagramSlot]
}

// postRecv posts a slot for the next datagram.
func (s *Socket) postRecv(i uint32) error {
	return s.uds[i/devices.DatagramRecvs].Recv(s.wrID(i), s.mr.SGE(int(i)*devices.DatagramSlot, devices.DatagramSlot))
}

// Received handles the completion of a receive. Next returns the datagram later: to handle it may
// close connections over which more has arrived.
func (s *Socket) Received(wc *verbs.WC) {
	i := uint32(wc.ID)
	if wc.ID != s.wrID(i) {
		return
	}
	if wc.Status != verbs.StatusSuccess {
		s.Failed = true // Recover posts it again, with all others
		return
	}
	if wc.Len > devices.RouteHeaderBytes && wc.Len <= devices.DatagramSlot {
		// Datagrams without a valid MAC of this job are ignored: any host can send them.
		if msg, err := cm.ParseMessage(s.slot(i)[devices.RouteHeaderBytes:wc.Len], &s.key); err == nil {
			msg.Address = append([]byte(nil), msg.Address...)
			s.received = append(s.received, msg)
		}
	}
	// A lost device is reported by polling its completion queue.
	s.Failed = s.postRecv(i) != nil || s.Failed
}

// Next removes and returns the oldest datagram that has arrived, nil if there is none.
func (s *Socket) Next() *cm.Message {
	if len(s.received) == 0 {
		return nil
	}
	msg := s.received[0]
	if s.received = s.received[1:]; len(s.received) == 0 {
		s.received = nil
	}
	return &msg
}

// DropReceived drops the datagrams that Next would return.
func (s *Socket) DropReceived() { s.received = nil }

// ErrNoSlot means that no datagram can be sent now, because so many are in flight, or because the
// queue pairs are to be restarted by Recover.
var ErrNoSlot = errors.New("all slots for datagrams are in use")

// Send sends a datagram. It may be lost, so its sender must be prepared to send it again. The error
// is ErrNoSlot, or a [*devices.SetUpError] if the device refuses to send it, or to restart the
// queue pairs.
func (s *Socket) Send(to *Destination, msg *cm.Message) error {
	if len(s.freeSends) == 0 {
		return ErrNoSlot
	}
	dest := to.Dest
	if msg.Kind == cm.Probe {
		dest.QPN = to.responder
	}
	i := s.freeSends[len(s.freeSends)-1]
	n := len(msg.Append(s.slot(i)[:0], &s.key))
	if err := to.ud.SendTo(s.wrID(i), verbs.Signaled, dest, s.mr.SGE(int(i)*devices.DatagramSlot, n)); err != nil {
		if s.Failed && s.Refusal == nil && errors.Is(err, verbs.ErrState) {
			return ErrNoSlot
		}
		// Without a restart, the state is what forbids to send.
		return &devices.SetUpError{Err: cmp.Or(s.Refusal, err)}
	}
	err := to.ud.Ring()
	if e := (*verbs.Error)(nil); !errors.As(err, &e) || e.Dropped == 0 { // else it never completes
		s.freeSends = s.freeSends[:len(s.freeSends)-1]
	}
	if err != nil {
		return &devices.SetUpError{Err: err}
	}
	return nil
}

// Sent handles the completion of a datagram that was sent. It frees its slot.
func (s *Socket) Sent(wc *verbs.WC) {
	i := uint32(wc.ID)
	if wc.ID != s.wrID(i) {
		return
	}
	s.freeSends = append(s.freeSends, i)
	s.Failed = s.Failed || wc.Status != verbs.StatusSuccess
}

// Free returns how many datagrams can be sent now.
func (s *Socket) Free() int { return len(s.freeSends) }

// IsSending reports whether datagrams are in flight whose completion is to be expected.
func (s *Socket) IsSending() bool { return len(s.freeSends) < int(s.sends) && !s.Failed }

// Recover resets the queue pairs after one has failed. They keep their numbers, by which peers know
// them. The reset drops all posted requests. Some of them have completed, the others never will, so
// all receives are posted again under the next generation. The error is stored in Refusal.
func (s *Socket) Recover() error {
	s.Refusal = s.restart()
	s.Failed = s.Refusal != nil
	return s.Refusal
}

// restart does what Recover does.
func (s *Socket) restart() error {
	indices := s.rail.Indices()
	for i, ud := range s.uds {
		if err := s.rail.RestartUD(ud, indices[i]); err != nil {
			return err
		}
	}
	s.generation++
	return s.postAll()
}
