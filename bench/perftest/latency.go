package perftest

import (
	"runtime"

	"github.com/ibrun/ibrun/internal/ticks"
	"github.com/ibrun/ibrun/verbs"
)

// yieldIfDue yields the processor every few milliseconds.
func (s *side) yieldIfDue() {
	if s.yield.Due() {
		s.yield.Reset()
		runtime.Gosched()
	}
}

// await spins until there is a completion. It never sleeps, like perftest, because every operation takes only microseconds.
func (s *side) await(cq *verbs.CQ) error {
	s.yieldIfDue()
	for {
		s.yield.Poll()
		n, err := cq.Poll(s.wc[:1])
		if err != nil {
			return err
		}
		if n > 0 {
			return s.wc[0].Err()
		}
	}
}

// submit posts a request and rings the doorbell.
func (s *side) submit(id int, f verbs.Flags) error {
	return s.post(uint64(id), f|verbs.RingDoorbell)
}

// signalFlags returns [verbs.Signaled] for requests that have a completion: each Moderation-th, and the last.
func (s *side) signalFlags(id int) verbs.Flags {
	if (id+1)%s.Moderation == 0 || id+1 == s.Iterations {
		return verbs.Signaled
	}
	return 0
}

// sendPingPong is the ping-pong of send_lat. It posts the receive again before it sends the answer.
func (s *side) sendPingPong() error {
	n := s.Iterations
	for sent, got := 0, 0; sent < n || got < n; {
		if got < n && (sent > 0 || !s.client) {
			if err := s.await(s.recvCQ); err != nil {
				return err
			}
			if got++; got+receives <= n {
				if err := s.qp.Recv(uint64(got), s.in); err != nil {
					return err
				}
			}
		}
		if sent < n {
			s.postTimes[sent] = ticks.Now()
			f := s.signalFlags(sent)
			if err := s.submit(sent, f); err != nil {
				return err
			}
			if sent++; f == 0 {
				continue
			}
			if err := s.await(s.sendCQ); err != nil {
				return err
			}
		}
	}
	return nil
}

// writePingPong is the ping-pong of write_lat, which the server begins. The last byte of a message is its number; it changes
// when the message has arrived.
func (s *side) writePingPong() error {
	n, in := s.Iterations, s.buf[s.half:s.half+s.Size]
	for sent, got := 0, 0; sent < n || got < n; {
		if got < n && (sent > 0 || s.client) {
			got++
			for lastByte(in) != byte(got) {
			}
		}
		if sent < n {
			s.postTimes[sent] = ticks.Now()
			sent++
			s.buf[s.Size-1] = byte(sent)
			if err := s.submit(sent, verbs.Signaled); err != nil {
				return err
			}
			if err := s.await(s.sendCQ); err != nil {
				return err
			}
		}
	}
	return nil
}

// sequential is read_lat and atomic_lat: it posts a request after the previous one has completed.
func (s *side) sequential() error {
	for i := range s.Iterations {
		s.postTimes[i] = ticks.Now()
		if err := s.submit(i, verbs.Signaled); err != nil {
			return err
		}
		if err := s.await(s.sendCQ); err != nil {
			return err
		}
	}
	return nil
}
