package pmi

import "strconv"

// maxBarriersPerRank bounds how many barriers one rank may wait in at a time. PMI 1.2 allows several, from different threads.
const maxBarriersPerRank = 16

// barrier is a barrier that some of its members have entered.
type barrier struct {
	group     group
	localSize int              // how many members this server serves
	remote    bool             // other servers serve members too
	announced bool             // the other servers have been notified that all local members have entered
	waiting   map[int]*session // by rank
}

// barrierIn enters the rank into a barrier. The last local member releases all, or notifies the other servers.
func (c *session) barrierIn(m *message) error {
	s := c.server
	g, err := parseGroup(m.get("group"), s.nodes, c.rank)
	if err != nil {
		return c.refuse("barrier_out", err.Error())
	}
	s.mu.Lock()
	b := s.barriers[g.key]
	if b == nil {
		b = &barrier{group: g, waiting: make(map[int]*session)}
		b.localSize, b.remote = s.localMembers(&g)
	}
	if b.waiting[c.rank] != nil || c.barriers == maxBarriersPerRank {
		s.mu.Unlock()
		return c.refuse("barrier_out", "this rank already waits in this barrier or in too many others", "tag", strconv.Itoa(g.tag))
	}
	b.waiting[c.rank] = c
	c.barriers++
	s.barriers[g.key] = b
	complete := len(b.waiting) == b.localSize
	if complete && b.remote {
		b.announced = true
	} else if complete {
		s.removeBarrier(b)
	}
	s.mu.Unlock()
	switch {
	case !complete:
		return nil
	case b.remote:
		s.announceBarrier(g.key)
		return nil
	}
	return b.release(c)
}

// localMembers returns how many members of a group this server serves, and whether other servers serve some.
func (s *Server) localMembers(g *group) (size int, remote bool) {
	switch {
	case s.job.ToExchange == nil && g.members == nil:
		return s.job.Size, false
	case s.job.ToExchange == nil:
		return len(g.members), false
	case g.members == nil:
		return s.local, s.local < s.job.Size
	}
	for _, rank := range g.members {
		if s.serves(rank) {
			size++
		}
	}
	return size, size < len(g.members)
}

// removeBarrier removes a complete barrier. The caller must hold mu.
func (s *Server) removeBarrier(b *barrier) {
	delete(s.barriers, b.group.key)
	for _, w := range b.waiting {
		w.barriers--
	}
}

// release answers all local members. self is the session whose goroutine calls it, or nil.
func (b *barrier) release(self *session) error {
	line := encode("barrier_out", "rc", "0", "tag", strconv.Itoa(b.group.tag))
	for _, w := range b.waiting {
		if w == self {
			continue
		}
		w.answerLater(func() error { return w.write(line) })
	}
	if self == nil {
		return nil
	}
	return self.write(line)
}

// removeSession removes a session that has ended from the barriers it waits in. They cannot complete without its rank. It reports
// whether the session has ended because the rank does not read its answers.
func (s *Server) removeSession(c *session) (unread bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nameRequests[c.rank] == c {
		delete(s.nameRequests, c.rank)
	}
	for key, b := range s.barriers {
		if b.waiting[c.rank] == c {
			delete(b.waiting, c.rank)
		}
		if len(b.waiting) == 0 && !b.announced {
			delete(s.barriers, key)
		}
	}
	return c.unread
}
