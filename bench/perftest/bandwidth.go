package perftest

// stream is the client of all _bw measurements: it keeps Depth requests in the queue. The server of send_bw runs receiveStream.
func (s *side) stream() error {
	if !s.client {
		return s.receiveStream()
	}
	for posted, done := 0, 0; done < s.Iterations; {
		for posted < s.Iterations && posted-done < s.Depth {
			s.yield.Poll() // software devices send within the call that rings the doorbell, which may take long
			s.yieldIfDue()
			if err := s.submit(posted, s.signalFlags(posted)); err != nil {
				return err
			}
			posted++
		}
		s.yield.Poll()
		s.yieldIfDue()
		n, err := s.sendCQ.Poll(s.wc[:])
		if err != nil {
			return err
		}
		for i := range s.wc[:n] {
			if err := s.wc[i].Err(); err != nil {
				return err
			}
			done = int(s.wc[i].ID) + 1 // and all before it, which had no completion
		}
	}
	return nil
}

// receiveStream receives what stream sends.
func (s *side) receiveStream() error {
	for got := 0; got < s.Iterations; {
		s.yield.Poll()
		s.yieldIfDue()
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
