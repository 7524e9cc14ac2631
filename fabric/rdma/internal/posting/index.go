package posting

// key identifies a queue pair.
type key struct {
	rail *Rail
	qpn  uint32
}

// index finds the queue pairs of connections. Consecutive completions are mostly of few queue
// pairs, which a small direct-mapped cache holds.
type index struct {
	all   map[key]*QueuePair
	cache [16]struct {
		key key
		q   *QueuePair
	}
}

func (x *index) find(r *Rail, qpn uint32) *QueuePair {
	c := &x.cache[qpn%uint32(len(x.cache))]
	if k := (key{r, qpn}); c.key != k || c.q == nil {
		c.key, c.q = k, x.all[k]
	}
	return c.q
}

func (x *index) set(q *QueuePair) {
	x.all[key{q.Rail, q.Info.QPN}] = q
	x.cache[q.Info.QPN%uint32(len(x.cache))].q = nil
}

func (x *index) remove(q *QueuePair) {
	delete(x.all, key{q.Rail, q.Info.QPN})
	x.cache[q.Info.QPN%uint32(len(x.cache))].q = nil
}
