package pmi

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxWaits is how many barriers one rank may wait in at a time; PMI 1.2 allows several, from different threads.
const maxWaits = 16

// barrier is one that some of its members have reached.
type barrier struct {
	size    int // how many belong to it
	tag     int
	waiting map[int]*session // by rank
}

// barrierIn takes a rank into a barrier. The last one to come releases all.
func (c *session) barrierIn(m *message) error {
	s := c.server
	key, size, tag, err := s.group(m.get("group"), c.rank)
	if err != nil {
		return c.refuse("barrier_out", err.Error())
	}
	s.mu.Lock()
	b := s.barriers[key]
	if b == nil {
		b = &barrier{size: size, tag: tag, waiting: make(map[int]*session)}
	}
	if b.waiting[c.rank] != nil || c.waits == maxWaits {
		s.mu.Unlock()
		return c.refuse("barrier_out", "this rank waits there already or in too many others", "tag", strconv.Itoa(tag))
	}
	b.waiting[c.rank] = c
	c.waits++
	s.barriers[key] = b
	complete := len(b.waiting) == b.size
	if complete {
		delete(s.barriers, key)
		for _, w := range b.waiting {
			w.waits--
		}
	}
	s.mu.Unlock()
	if !complete {
		return nil
	}
	return b.release(c)
}

// release answers all members. Nobody waits for a rank that does not read its answers: each but that of self gets
// its own goroutine, which ends at the latest when the connection does.
func (b *barrier) release(self *session) error {
	line := encode("barrier_out", "rc", "0", "tag", strconv.Itoa(b.tag))
	for _, w := range b.waiting {
		if w == self {
			continue
		}
		go func() {
			if w.write(line) != nil {
				w.conn.Close() // ends its Serve
			}
		}()
	}
	return self.write(line)
}

// leave takes a session that has ended out of the barriers it waits in, which will not complete without its rank.
func (s *Server) leave(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, b := range s.barriers {
		if b.waiting[c.rank] == c {
			delete(b.waiting, c.rank)
		}
		if len(b.waiting) == 0 {
			delete(s.barriers, key)
		}
	}
}

// group reads WORLD, NODE or a list of ranks, each with :tag or without, and tells how many ranks that is; empty is
// a barrier of all ranks with no group named. Two groups are the same barrier if they have the same key.
func (s *Server) group(text string, self int) (key string, size, tag int, err error) {
	if text == "" {
		return "", s.job.Size, 0, nil
	}
	name, tagText, tagged := strings.Cut(text, ":")
	if tagged {
		if tag, err = strconv.Atoi(tagText); err != nil {
			return "", 0, 0, errors.New("barrier tag is no number")
		}
	}
	var members []int
	switch name {
	case "WORLD":
		return "WORLD:" + strconv.Itoa(tag), s.job.Size, tag, nil
	case "NODE":
		for rank, node := range s.nodes {
			if node == s.nodes[self] {
				members = append(members, rank)
			}
		}
	default:
		for word := range strings.SplitSeq(name, ",") {
			rank, err := strconv.Atoi(word)
			if err != nil || rank < 0 || rank >= s.job.Size {
				return "", 0, 0, errors.New("no such rank in this job")
			}
			members = append(members, rank)
		}
		slices.Sort(members)
		members = slices.Compact(members)
	}
	if !slices.Contains(members, self) {
		return "", 0, 0, errors.New("this rank is not in the group")
	}
	return fmt.Sprint(members, ":", tag), len(members), tag, nil
}
