package match

// What a receive leaves open.
const (
	AnySource = -1
	AnyTag    = -2
)

// The four classes: what is open, a bit each.
const (
	none       = 0
	openSource = 1 << 0
	openTag    = 1 << 1
	openBoth   = openSource | openTag
	classes    = openBoth + 1
)

// keyFor is the key under which a message from source with tag lies in a class.
func keyFor(class int, source, tag int32) key {
	switch class {
	case none:
		return key{source, tag}
	case openSource:
		return key{AnySource, tag}
	case openTag:
		return key{source, AnyTag}
	}
	return key{AnySource, AnyTag}
}

func classOf(source, tag int32) int {
	switch {
	case source != AnySource && tag != AnyTag:
		return none
	case tag != AnyTag:
		return openSource
	case source != AnySource:
		return openTag
	}
	return openBoth
}

// Receive is a receive that may wait. Put one into each R and set it up with Init, once.
type Receive[R any] struct {
	l    link[R]
	lone bool // it waits outside the queues
}

// Init says whose receive it is.
func (r *Receive[R]) Init(of *R) { r.l.of = of }

// Posted tells whether it waits in a table.
func (r *Receive[R]) Posted() bool { return r.lone || r.l.q != nil }

// Message is a message that may wait. Put one into each M and set it up with Init, once.
type Message[M any] struct{ in [classes]link[M] }

// Init says whose message it is.
func (m *Message[M]) Init(of *M) {
	for i := range m.in {
		m.in[i].of = of
	}
}

// Table pairs the messages and receives of one context. The zero value is ready.
type Table[R, M any] struct {
	posted [classes]class[R]
	kept   [classes]class[M]
	open   int // receives with something left open
	closed int // what no receive may leave open
	seq    uint64
	lone   *Receive[R] // the only receive that waits, if it leaves nothing open: most often there is just one
	wants  key         // what it waits for
}

// Post puts a receive where arriving messages find it. Whoever posts has looked with Find before. It refuses a receive that
// leaves open what is closed.
func (t *Table[R, M]) Post(r *Receive[R], source, tag int32) bool {
	if t.lone == nil && t.open == 0 && t.posted[none].used == 0 && source != AnySource && tag != AnyTag {
		r.lone = true
		t.lone, t.wants = r, key{source, tag}
		return true
	}
	if !t.Allows(source, tag) {
		return false
	}
	if first := t.lone; first != nil {
		t.dropLone()
		t.enqueue(first, t.wants.source, t.wants.tag)
	}
	if q := t.posted[none].last; q != nil && q.key == (key{source, tag}) { // as enqueue for what was posted last, too
		t.seq++
		r.l.seq = t.seq
		t.posted[none].used++
		q.push(&r.l)
		return true
	}
	t.enqueue(r, source, tag)
	return true
}

func (t *Table[R, M]) dropLone() {
	t.lone.lone = false
	t.lone = nil
}

func (t *Table[R, M]) enqueue(r *Receive[R], source, tag int32) {
	c := classOf(source, tag)
	if c != none {
		t.open++
	}
	t.seq++
	r.l.seq = t.seq
	t.posted[c].push(key{source, tag}, &r.l)
}

// RemovePosted takes a posted receive out again.
func (t *Table[R, M]) RemovePosted(r *Receive[R]) {
	if r.lone {
		t.dropLone()
		return
	}
	c := classOf(r.l.q.key.source, r.l.q.key.tag)
	if c != none {
		t.open--
	}
	t.posted[c].remove(&r.l)
}

// TakePosted finds the receive that a message goes to, and takes it out; nil if none fits.
func (t *Table[R, M]) TakePosted(source, tag int32) *R {
	if r := t.lone; r != nil {
		if t.wants != (key{source, tag}) {
			return nil
		}
		t.dropLone()
		return r.l.of
	}
	if t.open != 0 {
		return t.takePostedWildcard(source, tag)
	}
	c := &t.posted[none]
	if c.used == 0 {
		return nil
	}
	q := c.last // as find, which is a call
	if k := (key{source, tag}); q == nil || q.key != k {
		q = c.lookup(k)
	}
	if q == nil || q.head == nil {
		return nil
	}
	c.used--
	return q.pop().of
}

// takePostedWildcard is Arrive where receives of several classes may fit: the one posted first gets the message.
func (t *Table[R, M]) takePostedWildcard(source, tag int32) *R {
	var first *link[R]
	at, may := 0, openBoth&^t.closed
	for c := none; ; {
		if t.posted[c].used != 0 {
			q := t.posted[c].find(keyFor(c, source, tag))
			if q != nil && q.head != nil && (first == nil || q.head.seq < first.seq) {
				first, at = q.head, c
			}
		}
		if c = next(c, may); c == none {
			break
		}
	}
	if first == nil {
		return nil
	}
	if at != none {
		t.open--
	}
	t.posted[at].remove(first)
	return first.of
}

// AddUnexpected puts a message where receives find it. Whoever keeps has called Arrive before.
func (t *Table[R, M]) AddUnexpected(m *Message[M], source, tag int32) {
	t.seq++
	m.in[none].seq = t.seq
	may := openBoth &^ t.closed
	for c := none; ; {
		t.kept[c].push(keyFor(c, source, tag), &m.in[c])
		if c = next(c, may); c == none {
			return
		}
	}
}

// FindUnexpected returns the first message that fits and leaves it where it is; nil if there is none.
func (t *Table[R, M]) FindUnexpected(source, tag int32) *M {
	if t.kept[none].used == 0 {
		return nil
	}
	q := t.kept[classOf(source, tag)].find(key{source, tag})
	if q == nil || q.head == nil {
		return nil
	}
	return q.head.of
}

// RemoveUnexpected takes a kept message out.
func (t *Table[R, M]) RemoveUnexpected(m *Message[M]) {
	may := openBoth &^ t.closed
	for c := none; ; {
		t.kept[c].remove(&m.in[c])
		if c = next(c, may); c == none {
			return
		}
	}
}

// Empty tells whether nothing waits.
func (t *Table[R, M]) Empty() bool {
	return t.lone == nil && t.open == 0 && t.posted[none].used == 0 && t.kept[none].used == 0
}

// Lengths tells how many receives and messages wait.
func (t *Table[R, M]) Lengths() (receives, messages int) {
	if t.lone != nil {
		receives = 1
	}
	for c := range t.posted {
		receives += t.posted[c].used
	}
	return receives, t.kept[none].used
}

// Drain takes out everything and hands it over, for a context that ends.
func (t *Table[R, M]) Drain(receive func(*R), message func(*M)) {
	if r := t.lone; r != nil {
		t.dropLone()
		receive(r.l.of)
	}
	for c := range t.posted {
		for _, q := range t.posted[c].slots {
			for ; q != nil; q = q.chain {
				for q.head != nil {
					of := q.head.of
					t.posted[c].remove(q.head)
					receive(of)
				}
			}
		}
	}
	t.open = 0
	for _, q := range t.kept[none].slots {
		for ; q != nil; q = q.chain {
			for l := q.head; l != nil; l = l.next {
				message(l.of)
			}
		}
	}
	for c := range t.kept {
		t.kept[c] = class[M]{}
	}
}
