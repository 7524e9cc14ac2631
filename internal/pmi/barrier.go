package pmi

import "strconv"

// maxWaits is how many barriers one rank may wait in at a time; PMI 1.2 allows several, from different threads.
const maxWaits = 16

// barrier is one that some of its members have reached.
type barrier struct {
	circle  circle
	size    int              // how many of its members this server serves
	far     bool             // others serve members too
	told    bool             // they have been told that all of this server's are here
	waiting map[int]*session // by rank
}

// barrierIn takes a rank into a barrier. The last one to come releases all, or tells the other servers.
func (c *session) barrierIn(m *message) error {
	s := c.server
	circle, err := parseCircle(m.get("group"), s.nodes, c.rank)
	if err != nil {
		return c.refuse("barrier_out", err.Error())
	}
	s.mu.Lock()
	b := s.barriers[circle.key]
	if b == nil {
		b = &barrier{circle: circle, waiting: make(map[int]*session)}
		b.size, b.far = s.share(&circle)
	}
	if b.waiting[c.rank] != nil || c.waits == maxWaits {
		s.mu.Unlock()
		return c.refuse("barrier_out", "this rank waits there already or in too many others", "tag", strconv.Itoa(circle.tag))
	}
	b.waiting[c.rank] = c
	c.waits++
	s.barriers[circle.key] = b
	complete := len(b.waiting) == b.size
	if complete && b.far {
		b.told = true
	} else if complete {
		s.forget(b)
	}
	s.mu.Unlock()
	switch {
	case !complete:
		return nil
	case b.far:
		s.tell(circle.key)
		return nil
	}
	return b.release(c)
}

// share tells how many ranks of a circle this server serves, and whether others serve some.
func (s *Server) share(c *circle) (size int, far bool) {
	switch {
	case s.job.Up == nil && c.members == nil:
		return s.job.Size, false
	case s.job.Up == nil:
		return len(c.members), false
	case c.members == nil:
		return s.local, s.local < s.job.Size
	}
	for _, rank := range c.members {
		if s.serves(rank) {
			size++
		}
	}
	return size, size < len(c.members)
}

// forget takes out a barrier that is complete, with mu held.
func (s *Server) forget(b *barrier) {
	delete(s.barriers, b.circle.key)
	for _, w := range b.waiting {
		w.waits--
	}
}

// release answers all members. Nobody waits for a rank that does not read its answers: each but that of self gets
// its own goroutine, which ends at the latest when the connection does.
func (b *barrier) release(self *session) error {
	line := encode("barrier_out", "rc", "0", "tag", strconv.Itoa(b.circle.tag))
	for _, w := range b.waiting {
		if w == self {
			continue
		}
		go func() {
			if err := w.write(line); err != nil && !unheard(err) {
				w.conn.Close() // ends its Serve
			}
		}()
	}
	if self == nil {
		return nil
	}
	return self.write(line)
}

// leave takes a session that has ended out of the barriers it waits in, which will not complete without its rank.
func (s *Server) leave(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking[c.rank] == c {
		delete(s.asking, c.rank)
	}
	for key, b := range s.barriers {
		if b.waiting[c.rank] == c {
			delete(b.waiting, c.rank)
		}
		if len(b.waiting) == 0 && !b.told {
			delete(s.barriers, key)
		}
	}
}
