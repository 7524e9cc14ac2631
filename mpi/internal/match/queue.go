package match

// element is a posted receive or an unexpected message in a queue.
type element[T any] struct {
	next, prev *element[T]
	queue      *queue[T]
	owner      *T     // the caller's struct that contains this one
	seq        uint64 // order of posting, or of arrival
}

// queue holds the elements with one key, first in, first out.
type queue[T any] struct {
	key        key
	head, tail *element[T]
	length     int
	chain      *queue[T] // next queue in the same slot
}

// key is a source and a tag. A wildcard has a fixed value in all keys of a class.
type key struct{ source, tag int32 }

func (q *queue[T]) push(x *element[T]) {
	x.queue = q
	x.prev = q.tail
	x.next = nil
	q.length++
	if q.tail == nil {
		q.head = x
	} else {
		q.tail.next = x
	}
	q.tail = x
}

// pop removes and returns the first element.
func (q *queue[T]) pop() *element[T] {
	x := q.head
	q.length--
	if q.head = x.next; x.next == nil {
		q.tail = nil
	} else {
		x.next.prev = nil
	}
	x.next, x.queue = nil, nil
	return x
}

// unlink removes an element from its queue.
func (x *element[T]) unlink() {
	q := x.queue
	q.length--
	if x.prev == nil {
		q.head = x.next
	} else {
		x.prev.next = x.next
	}
	if x.next == nil {
		q.tail = x.prev
	} else {
		x.next.prev = x.prev
	}
	x.next, x.prev, x.queue = nil, nil, nil
}

// class is a set of queues by key: a hash table with chaining. An empty queue stays, since the next message usually has a key
// that was used before. When the table is full the empty queues are removed first, and reused for other keys.
type class[T any] struct {
	last  *queue[T] // the queue found last
	slots []*queue[T]
	free  *queue[T] // free list of empty queues, which are not in slots
	count int       // queues in slots
	used  int       // elements in queues
}

func (k key) slot(n int) uint32 {
	h := uint64(uint32(k.source))<<32 | uint64(uint32(k.tag))
	h *= 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio: spreads neighbouring keys
	return uint32(h>>32) & uint32(n-1)
}

// find returns the queue of a key; nil if there is none.
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

// push appends an element to the queue of a key.
func (c *class[T]) push(k key, x *element[T]) {
	q := c.find(k)
	if q == nil {
		q = c.add(k)
	}
	c.used++
	q.push(x)
}

func (c *class[T]) remove(x *element[T]) {
	c.used--
	x.unlink()
}

// add adds an empty queue for a key.
func (c *class[T]) add(k key) *queue[T] {
	if c.count == len(c.slots) {
		c.grow()
	}
	q := c.free
	if q == nil {
		q = new(queue[T])
	} else {
		c.free = q.chain
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

// grow moves the empty queues to the free list, and doubles the table if more than half of the queues were not empty.
func (c *class[T]) grow() {
	var live *queue[T]
	busy := 0
	for _, q := range c.slots {
		for q != nil {
			next, list := q.chain, &c.free
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
