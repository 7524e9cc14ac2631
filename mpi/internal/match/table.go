package match

import "iter"

// The wildcards of a receive.
const (
	AnySource = -1
	AnyTag    = -2
)

// The four classes: the wildcards that a receive has, one bit each.
const (
	exact      = 0
	anySource  = 1 << 0
	anyTag     = 1 << 1
	anyBoth    = anySource | anyTag
	classCount = anyBoth + 1
)

// keyFor returns the key in a class of a message from source with tag.
func keyFor(class int, source, tag int32) key {
	switch class {
	case exact:
		return key{source, tag}
	case anySource:
		return key{AnySource, tag}
	case anyTag:
		return key{source, AnyTag}
	}
	return key{AnySource, AnyTag}
}

// classOf returns the class of a receive.
func classOf(source, tag int32) int {
	switch {
	case source != AnySource && tag != AnyTag:
		return exact
	case tag != AnyTag:
		return anySource
	case source != AnySource:
		return anyTag
	}
	return anyBoth
}

// Receive is the part of an R that a table uses. Init must be called once.
type Receive[R any] struct {
	elem   element[R]
	single bool // posted outside the queues
}

// Init sets the struct that contains r.
func (r *Receive[R]) Init(owner *R) { r.elem.owner = owner }

// Posted reports whether the receive is posted in a table.
func (r *Receive[R]) Posted() bool { return r.single || r.elem.queue != nil }

// Message is the part of an M that a table uses. Init must be called once.
type Message[M any] struct{ elems [classCount]element[M] }

// Init sets the struct that contains m.
func (m *Message[M]) Init(owner *M) {
	for i := range m.elems {
		m.elems[i].owner = owner
	}
}

// Table matches the messages and receives of one context. The zero value is ready to use.
type Table[R, M any] struct {
	posted     [classCount]class[R]
	unexpected [classCount]class[M]
	wildcards  int // number of posted receives with wildcards
	forbidden  int // wildcards that no receive may have
	seq        uint64
	single     *Receive[R] // the only posted receive, if it has no wildcard: usually there is just one
	singleKey  key         // its source and tag
}

// Post posts a receive. The caller must have called FindUnexpected before, with no result. Post returns false, and does not post
// the receive, if it has a forbidden wildcard.
func (t *Table[R, M]) Post(r *Receive[R], source, tag int32) bool {
	if t.single == nil && t.wildcards == 0 && t.posted[exact].used == 0 && source != AnySource && tag != AnyTag {
		r.single = true
		t.single, t.singleKey = r, key{source, tag}
		return true
	}
	if !t.Allows(source, tag) {
		return false
	}
	if first := t.single; first != nil {
		t.dropSingle()
		t.enqueue(first, t.singleKey.source, t.singleKey.tag)
	}
	if q := t.posted[exact].last; q != nil && q.key == (key{source, tag}) { // the same as enqueue, for the last key
		t.seq++
		r.elem.seq = t.seq
		t.posted[exact].used++
		q.push(&r.elem)
		return true
	}
	t.enqueue(r, source, tag)
	return true
}

func (t *Table[R, M]) dropSingle() {
	t.single.single = false
	t.single = nil
}

func (t *Table[R, M]) enqueue(r *Receive[R], source, tag int32) {
	c := classOf(source, tag)
	if c != exact {
		t.wildcards++
	}
	t.seq++
	r.elem.seq = t.seq
	t.posted[c].push(key{source, tag}, &r.elem)
}

// RemovePosted removes a posted receive.
func (t *Table[R, M]) RemovePosted(r *Receive[R]) {
	if r.single {
		t.dropSingle()
		return
	}
	c := classOf(r.elem.queue.key.source, r.elem.queue.key.tag)
	if c != exact {
		t.wildcards--
	}
	t.posted[c].remove(&r.elem)
}

// TakePosted removes and returns the receive that a message is matched with; nil if none fits.
func (t *Table[R, M]) TakePosted(source, tag int32) *R {
	if r := t.single; r != nil {
		if t.singleKey != (key{source, tag}) {
			return nil
		}
		t.dropSingle()
		return r.elem.owner
	}
	if t.wildcards != 0 {
		return t.takePostedWildcard(source, tag)
	}
	c := &t.posted[exact]
	if c.used == 0 {
		return nil
	}
	q := c.last // the same as find, which would be a call
	if k := (key{source, tag}); q == nil || q.key != k {
		q = c.lookup(k)
	}
	if q == nil || q.head == nil {
		return nil
	}
	c.used--
	return q.pop().owner
}

// takePostedWildcard is TakePosted if receives of several classes may fit: the oldest one is matched.
func (t *Table[R, M]) takePostedWildcard(source, tag int32) *R {
	var first *element[R]
	at, allowed := 0, anyBoth&^t.forbidden
	for c := exact; ; {
		if t.posted[c].used != 0 {
			q := t.posted[c].find(keyFor(c, source, tag))
			if q != nil && q.head != nil && (first == nil || q.head.seq < first.seq) {
				first, at = q.head, c
			}
		}
		if c = nextClass(c, allowed); c == exact {
			break
		}
	}
	if first == nil {
		return nil
	}
	if at != exact {
		t.wildcards--
	}
	t.posted[at].remove(first)
	return first.owner
}

// AddUnexpected stores a message for later receives. The caller must have called TakePosted before, with no result.
func (t *Table[R, M]) AddUnexpected(m *Message[M], source, tag int32) {
	t.seq++
	m.elems[exact].seq = t.seq
	allowed := anyBoth &^ t.forbidden
	for c := exact; ; {
		t.unexpected[c].push(keyFor(c, source, tag), &m.elems[c])
		if c = nextClass(c, allowed); c == exact {
			return
		}
	}
}

// FindUnexpected returns the first message that fits and leaves it in the table; nil if there is none.
func (t *Table[R, M]) FindUnexpected(source, tag int32) *M {
	if t.unexpected[exact].used == 0 {
		return nil
	}
	q := t.unexpected[classOf(source, tag)].find(key{source, tag})
	if q == nil || q.head == nil {
		return nil
	}
	return q.head.owner
}

// Unexpected returns the messages with exactly this source and tag, in the order of arrival. The caller may remove a message
// if it stops there.
func (t *Table[R, M]) Unexpected(source, tag int32) iter.Seq[*M] {
	return func(yield func(*M) bool) {
		if q := t.unexpected[exact].find(key{source, tag}); q != nil {
			for x := q.head; x != nil && yield(x.owner); x = x.next {
			}
		}
	}
}

// RemoveUnexpected removes a message.
func (t *Table[R, M]) RemoveUnexpected(m *Message[M]) {
	allowed := anyBoth &^ t.forbidden
	for c := exact; ; {
		t.unexpected[c].remove(&m.elems[c])
		if c = nextClass(c, allowed); c == exact {
			return
		}
	}
}

// Empty reports whether the table holds no receive and no message.
func (t *Table[R, M]) Empty() bool {
	return t.single == nil && t.wildcards == 0 && t.posted[exact].used == 0 && t.unexpected[exact].used == 0
}

// Lengths returns the numbers of posted receives and unexpected messages.
func (t *Table[R, M]) Lengths() (receives, messages int) {
	if t.single != nil {
		receives = 1
	}
	for c := range t.posted {
		receives += t.posted[c].used
	}
	return receives, t.unexpected[exact].used
}

// Drain removes everything, and calls receive or message with each element. It is for a context that ends.
func (t *Table[R, M]) Drain(receive func(*R), message func(*M)) {
	if r := t.single; r != nil {
		t.dropSingle()
		receive(r.elem.owner)
	}
	for c := range t.posted {
		for _, q := range t.posted[c].slots {
			for ; q != nil; q = q.chain {
				for q.head != nil {
					owner := q.head.owner
					t.posted[c].remove(q.head)
					receive(owner)
				}
			}
		}
	}
	t.wildcards = 0
	t.DrainMessages(message)
}

// DrainMessages removes all messages, and calls message with each.
func (t *Table[R, M]) DrainMessages(message func(*M)) {
	for _, q := range t.unexpected[exact].slots {
		for ; q != nil; q = q.chain {
			for x := q.head; x != nil; x = x.next {
				message(x.owner)
			}
		}
	}
	for c := range t.unexpected {
		t.unexpected[c] = class[M]{}
	}
}
