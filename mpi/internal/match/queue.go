package match

// link is a place in a queue.
type link[T any] struct {
	next, prev *link[T]
	q          *queue[T]
	of         *T
	seq        uint64 // order of posting, or of arrival
}

// queue holds what waits under one key, first come first.
type queue[T any] struct {
	key        key
	head, tail *link[T]
	length     int
	chain      *queue[T] // next queue in the same slot
}

// key is source and tag; what is open has a fixed value in all keys of a class.
type key struct{ source, tag int32 }

func (q *queue[T]) push(l *link[T]) {
	l.q = q
	l.prev = q.tail
	l.next = nil
	q.length++
	if q.tail == nil {
		q.head = l
	} else {
		q.tail.next = l
	}
	q.tail = l
}

// pop takes the first out.
func (q *queue[T]) pop() *link[T] {
	l := q.head
	q.length--
	if q.head = l.next; l.next == nil {
		q.tail = nil
	} else {
		l.next.prev = nil
	}
	l.next, l.q = nil, nil
	return l
}

func (l *link[T]) unlink() {
	q := l.q
	q.length--
	if l.prev == nil {
		q.head = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		q.tail = l.prev
	} else {
		l.next.prev = l.prev
	}
	l.next, l.prev, l.q = nil, nil, nil
}

// class is a set of queues by key: a hash table with chains. An emptied queue stays, since the next message most often
// has a key seen before; when the table is full the empty ones go first, to be used under other keys.
type class[T any] struct {
	last  *queue[T] // found last
	slots []*queue[T]
	spare *queue[T] // empty ones, not in slots
	count int       // queues in slots
	used  int       // links in queues
}

func (k key) slot(n int) uint32 {
	h := uint64(uint32(k.source))<<32 | uint64(uint32(k.tag))
	h *= 0x9e3779b97f4a7c15 // 2^64 over the golden ratio: spreads neighbouring keys
	return uint32(h>>32) & uint32(n-1)
}

// find returns the queue of a key, nil if there is none.
func (c *class[T]) find(k key) *queue[T] {
	if q := c.last; q != nil && q.key == k {
		return q
	}
	return c.lookup(k)
}

func (c *class[T]) lookup(k key) *queue[T] {
	if len(c.slots) == 0 {
		return nil
	}
	for q := c.slots[k.slot(len(c.slots))]; q != nil; q = q.chain {
		if q.key == k {
			c.last = q
			return q
		}
	}
	return nil
}

// push appends to the queue of a key.
func (c *class[T]) push(k key, l *link[T]) {
	q := c.find(k)
	if q == nil {
		q = c.add(k)
	}
	c.used++
	q.push(l)
}

func (c *class[T]) remove(l *link[T]) {
	c.used--
	l.unlink()
}

func (c *class[T]) add(k key) *queue[T] {
	if c.count == len(c.slots) {
		c.grow()
	}
	q := c.spare
	if q == nil {
		q = new(queue[T])
	} else {
		c.spare = q.chain
	}
	q.key = k
	c.insert(q)
	c.last = q
	return q
}

func (c *class[T]) insert(q *queue[T]) {
	s := &c.slots[q.key.slot(len(c.slots))]
	q.chain, *s = *s, q
	c.count++
}

// grow puts the empty queues aside, to be used again under other keys, and doubles the table if more than half of
// them were in use.
func (c *class[T]) grow() {
	var live *queue[T]
	busy := 0
	for _, q := range c.slots {
		for q != nil {
			next, list := q.chain, &c.spare
			if q.head != nil {
				list = &live
				busy++
			}
			q.chain, *list = *list, q
			q = next
		}
	}
	if n := len(c.slots); busy*2 >= n {
		c.slots = make([]*queue[T], max(8, 2*n))
	} else {
		clear(c.slots)
	}
	c.count, c.last = 0, nil
	for live != nil {
		q := live
		live = q.chain
		c.insert(q)
	}
}
