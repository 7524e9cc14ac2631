package pmi

import "fmt"

// serves reports whether this server serves the rank.
func (s *Server) serves(rank int) bool { return s.job.ToExchange == nil || s.nodes[rank] == s.job.Node }

// recordPut records a put for the other servers, which receive it with the next barrier. It returns false if too many bytes are
// waiting to be sent.
func (s *Server) recordPut(rank int, key, value string) bool {
	if s.job.ToExchange == nil {
		return true
	}
	put := Put{Rank: rank, Key: []byte(key), Value: []byte(value)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsentBytes+put.size() > s.local*maxRankBytes {
		return false
	}
	s.unsentBytes += put.size()
	s.unsentPuts = append(s.unsentPuts, put)
	return true
}

// announceBarrier notifies the other servers that all local members have entered a barrier, and sends them the recorded puts. A
// put that was made before the barrier is sent before it or with it, also if two barriers complete at the same time.
func (s *Server) announceBarrier(group string) {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	s.mu.Lock()
	puts := s.unsentPuts
	s.unsentPuts, s.unsentBytes = nil, 0
	s.mu.Unlock()
	for _, m := range barrierMessages(group, puts) {
		s.job.ToExchange(&m)
	}
}

// Deliver processes a message of the job's [Exchange] for this server. Messages must be delivered in order, by one goroutine at a
// time. Deliver does not wait for a rank. It returns an error if the message is malformed.
func (s *Server) Deliver(m *ExchangeMessage) error {
	if s.job.ToExchange == nil {
		return fmt.Errorf("%w: this server serves all ranks and expects no messages", errExchange)
	}
	if m.Name != nil {
		return s.deliverName(m.Name)
	}
	for i := range m.Puts {
		put := &m.Puts[i]
		if put.Rank < 0 || put.Rank >= s.job.Size {
			return fmt.Errorf("%w: put by rank %d of %d", errExchange, put.Rank, s.job.Size)
		}
		if !s.serves(put.Rank) && !s.keys.put(put.Rank, string(put.Key), string(put.Value), true) {
			return fmt.Errorf("%w: the puts of rank %d exceed its limit", errExchange, put.Rank)
		}
	}
	if m.More {
		return nil
	}
	s.mu.Lock()
	b := s.barriers[m.Group]
	if b == nil || !b.announced {
		s.mu.Unlock()
		return fmt.Errorf("%w: barrier %.70q completed before all local ranks entered it", errExchange, m.Group)
	}
	s.removeBarrier(b)
	s.mu.Unlock()
	return b.release(nil)
}

// deliverName sends the answer to the rank that sent the request, unless its connection has ended.
func (s *Server) deliverName(n *NameRequest) error {
	s.mu.Lock()
	c := s.nameRequests[n.Rank]
	delete(s.nameRequests, n.Rank)
	s.mu.Unlock()
	if c != nil {
		c.answerLater(func() error { return n.reply(c) })
	}
	return nil
}
