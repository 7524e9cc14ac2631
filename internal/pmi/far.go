package pmi

import "fmt"

// serves tells whether a rank is one of this server's.
func (s *Server) serves(rank int) bool { return s.job.Up == nil || s.nodes[rank] == s.job.Node }

// note keeps what a rank has put for the other servers. It reports false if they have not been told for too long.
func (s *Server) note(rank int, key, value string) bool {
	if s.job.Up == nil {
		return true
	}
	put := Put{Rank: rank, Key: []byte(key), Value: []byte(value)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newsBytes+put.size() > s.local*share {
		return false
	}
	s.newsBytes += put.size()
	s.news = append(s.news, put)
	return true
}

// tell tells the other servers that this one's ranks have reached a barrier, and what they have put. What was put before
// a barrier goes before it or with it, also if two barriers are complete at once.
func (s *Server) tell(group string) {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.mu.Lock()
	news := s.news
	s.news, s.newsBytes = nil, 0
	s.mu.Unlock()
	for _, p := range parcels(group, news) {
		s.job.Up(&p)
	}
}

// Deliver takes in what the job's [Exchange] has for this server. Parcels are delivered in order, by one goroutine at a
// time; it does not wait for a rank. An error says that the parcel makes no sense.
func (s *Server) Deliver(p *Parcel) error {
	if s.job.Up == nil {
		return fmt.Errorf("%w: this server serves all ranks", errParcel)
	}
	if p.Name != nil {
		return s.deliverName(p.Name)
	}
	for i := range p.Puts {
		put := &p.Puts[i]
		if put.Rank < 0 || put.Rank >= s.job.Size {
			return fmt.Errorf("%w: a put of rank %d of %d", errParcel, put.Rank, s.job.Size)
		}
		if !s.serves(put.Rank) && !s.keys.put(put.Rank, string(put.Key), string(put.Value), true) {
			return fmt.Errorf("%w: rank %d has put too much", errParcel, put.Rank)
		}
	}
	if p.More {
		return nil
	}
	s.mu.Lock()
	b := s.barriers[p.Group]
	if b == nil || !b.told {
		s.mu.Unlock()
		return fmt.Errorf("%w: the end of barrier %.70q, where not all ranks are", errParcel, p.Group)
	}
	s.forget(b)
	s.mu.Unlock()
	return b.release(nil)
}

// deliverName passes the answer on to the rank that asked, unless it has gone.
func (s *Server) deliverName(n *Name) error {
	s.mu.Lock()
	c := s.asking[n.Rank]
	delete(s.asking, n.Rank)
	s.mu.Unlock()
	if c != nil {
		go func() {
			if err := n.answer(c); err != nil && !unheard(err) {
				c.conn.Close() // ends its Serve
			}
		}()
	}
	return nil
}
