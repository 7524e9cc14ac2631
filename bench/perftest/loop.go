package perftest

import (
	"runtime"

	"github.com/ibrun/ibrun/internal/ticks"
	"github.com/ibrun/ibrun/verbs"
)

// breathe steps aside if it is time.
func (s *side) breathe() {
	if s.yield.Due() {
		s.yield.Reset()
		runtime.Gosched()
	}
}

// await spins until there is a completion. All that are measured take microseconds, so perftest spins as well.
func (s *side) await(cq *verbs.CQ) error {
	s.breathe()
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

// submit posts a request and tells the device.
func (s *side) submit(id int, f verbs.Flags) error {
	return s.post(uint64(id), f|verbs.RingDoorbell)
}

// signal tells whether the request is one of those that make a completion: each Moderation-th, and the last.
func (s *side) signal(id int) verbs.Flags {
	if (id+1)%s.Moderation == 0 || id+1 == s.Iterations {
		return verbs.Signaled
	}
	return 0
}

// sendTurns is the ping-pong of send_lat. A receive is posted again before the answer goes out.
func (s *side) sendTurns() error {
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
			s.stamps[sent] = ticks.Now()
			f := s.signal(sent)
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

// writeTurns is the ping-pong of write_lat, which the server begins. The last byte of a message is its number, and tells
// that it has arrived.
func (s *side) writeTurns() error {
	n, arriving := s.Iterations, s.buf[s.half:s.half+s.Size]
	for sent, got := 0, 0; sent < n || got < n; {
		if got < n && (sent > 0 || s.client) {
			got++
			for lastByte(arriving) != byte(got) {
			}
		}
		if sent < n {
			s.stamps[sent] = ticks.Now()
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

// oneByOne is read_lat and atomic_lat: a request after the completion of the one before.
func (s *side) oneByOne() error {
	for i := range s.Iterations {
		s.stamps[i] = ticks.Now()
		if err := s.submit(i, verbs.Signaled); err != nil {
			return err
		}
		if err := s.await(s.sendCQ); err != nil {
			return err
		}
	}
	return nil
}

// stream is what all _bw have in common: Depth requests are kept in the queue. The server of send_bw is sink.
func (s *side) stream() error {
	if !s.client {
		return s.sink()
	}
	for posted, done := 0, 0; done < s.Iterations; {
		for posted < s.Iterations && posted-done < s.Depth {
			s.yield.Poll() // software devices send from within the call that tells them, which may take long
			s.breathe()
			if err := s.submit(posted, s.signal(posted)); err != nil {
				return err
			}
			posted++
		}
		s.yield.Poll()
		s.breathe()
		n, err := s.sendCQ.Poll(s.wc[:])
		if err != nil {
			return err
		}
		for i := range s.wc[:n] {
			if err := s.wc[i].Err(); err != nil {
				return err
			}
			done = int(s.wc[i].ID) + 1 // and all before it, which made no completion
		}
	}
	return nil
}

// sink receives what stream sends.
func (s *side) sink() error {
	for got := 0; got < s.Iterations; {
		s.yield.Poll()
		s.breathe()
		n, err := s.recvCQ.Poll(s.wc[:])
		if err != nil {
			return err
		}
		for i := range s.wc[:n] {
			if err := s.wc[i].Err(); err != nil {
				return err
			}
			if got++; got+receives <= s.Iterations {
				if err := s.qp.Recv(uint64(got), s.in); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
