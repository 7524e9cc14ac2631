package match

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// rcv and msg are what waits in the tables of the tests. Their numbers say which came first.
type rcv struct {
	posted      Receive[rcv]
	number      int
	source, tag int32
}

type msg struct {
	kept        Message[msg]
	number      int
	source, tag int32
}

func newReceive(number int, source, tag int32) *rcv {
	r := &rcv{number: number, source: source, tag: tag}
	r.posted.Init(r)
	return r
}

func newMessage(number int, source, tag int32) *msg {
	m := &msg{number: number, source: source, tag: tag}
	m.kept.Init(m)
	return m
}

func fits(source, tag int32, m *msg) bool {
	return (source == AnySource || source == m.source) && (tag == AnyTag || tag == m.tag)
}

// model is a table beside two plain lists, in order of arrival, that say what it must answer.
type model struct {
	t        testing.TB
	table    Table[rcv, msg]
	receives []*rcv
	messages []*msg
	number   int

	source, tag bool // what is closed
}

// close closes or opens, and checks that what receives leave open stays so.
func (m *model) close(source, tag bool) {
	for _, r := range m.receives {
		source = source && r.source != AnySource
		tag = tag && r.tag != AnyTag
	}
	m.source, m.tag = source, tag
	s, t := m.table.Restrict(source, tag, func(x *msg) *Message[msg] { return &x.kept })
	if s != source || t != tag || m.table.Allows(AnySource, 0) == source || m.table.Allows(0, AnyTag) == tag {
		m.t.Fatalf("step %d: closed %v %v, want %v %v", m.number, s, t, source, tag)
	}
}

// checkAhead checks what is said about the receives that came before the one just posted.
func (m *model) checkAhead(source, tag int32) {
	if source == AnySource || tag == AnyTag {
		return
	}
	same, open := 1, false
	for _, r := range m.receives {
		if r.source == source && r.tag == tag {
			same++
		}
		open = open || r.source == AnySource || r.tag == AnyTag
	}
	if s, o := m.table.CountAhead(source, tag); s != same || o != open {
		m.t.Fatalf("step %d: %d alike and open %v, want %d and %v", m.number, s, o, same, open)
	}
}

// receive posts a receive, or takes the message that it gets.
func (m *model) receive(source, tag int32) {
	m.number++
	i := slices.IndexFunc(m.messages, func(x *msg) bool { return fits(source, tag, x) })
	if source == AnySource && m.source || tag == AnyTag && m.tag {
		i = -1
	}
	got := m.table.FindUnexpected(source, tag)
	switch {
	case i < 0 && got == nil:
		r := newReceive(m.number, source, tag)
		posted := m.table.Post(&r.posted, source, tag)
		if closed := source == AnySource && m.source || tag == AnyTag && m.tag; posted == closed {
			m.t.Fatalf("step %d: receive from %d with tag %d posted: %v", m.number, source, tag, posted)
		}
		if posted {
			m.checkAhead(source, tag)
			m.receives = append(m.receives, r)
		}
	case i < 0 || got != m.messages[i]:
		m.t.Fatalf("step %d: receive from %d with tag %d finds %v, want message %d of the list", m.number, source, tag, got, i)
	default:
		m.table.RemoveUnexpected(&got.kept)
		m.messages = slices.Delete(m.messages, i, i+1)
	}
}

// arrive delivers a message to the receive that gets it, or keeps it.
func (m *model) arrive(source, tag int32) {
	m.number++
	x := newMessage(m.number, source, tag)
	i := slices.IndexFunc(m.receives, func(r *rcv) bool { return fits(r.source, r.tag, x) })
	got := m.table.TakePosted(source, tag)
	switch {
	case i < 0 && got == nil:
		m.messages = append(m.messages, x)
		m.table.AddUnexpected(&x.kept, source, tag)
	case i < 0 || got != m.receives[i]:
		m.t.Fatalf("step %d: message from %d with tag %d goes to %v, want receive %d of the list", m.number, source, tag, got, i)
	default:
		if got.posted.Posted() {
			m.t.Fatalf("step %d: the receive that a message went to is still posted", m.number)
		}
		m.receives = slices.Delete(m.receives, i, i+1)
	}
}

// withdraw takes out the i-th receive, and take the i-th message, if there are so many.
func (m *model) withdraw(i int) {
	if i >= len(m.receives) {
		return
	}
	r := m.receives[i]
	if !r.posted.Posted() {
		m.t.Fatalf("receive %d waits and says that it does not", r.number)
	}
	m.table.RemovePosted(&r.posted)
	m.receives = slices.Delete(m.receives, i, i+1)
}

func (m *model) take(i int) {
	if i < len(m.messages) {
		m.table.RemoveUnexpected(&m.messages[i].kept)
		m.messages = slices.Delete(m.messages, i, i+1)
	}
}

// drain ends the context, and checks that each that waited was handed over once, messages of one sender in order.
func (m *model) drain() {
	receives, messages := map[*rcv]bool{}, map[*msg]bool{}
	last := map[[2]int32]int{}
	m.table.Drain(
		func(r *rcv) {
			if receives[r] || r.posted.Posted() {
				m.t.Fatalf("receive %d is handed over twice, or still posted", r.number)
			}
			receives[r] = true
		},
		func(x *msg) {
			if messages[x] || x.number < last[[2]int32{x.source, x.tag}] {
				m.t.Fatalf("message %d is handed over twice, or out of order", x.number)
			}
			messages[x] = true
			last[[2]int32{x.source, x.tag}] = x.number
		})
	for _, r := range m.receives {
		if !receives[r] {
			m.t.Fatalf("receive %d is not handed over", r.number)
		}
	}
	for _, x := range m.messages {
		if !messages[x] {
			m.t.Fatalf("message %d is not handed over", x.number)
		}
	}
	if len(receives) != len(m.receives) || len(messages) != len(m.messages) {
		m.t.Fatalf("%d receives and %d messages handed over of %d and %d",
			len(receives), len(messages), len(m.receives), len(m.messages))
	}
	m.receives, m.messages = nil, nil
}

func (m *model) checkCounts() {
	if r, x := m.table.Lengths(); r != len(m.receives) || x != len(m.messages) {
		m.t.Fatalf("step %d: %d receives and %d messages wait, want %d and %d", m.number, r, x, len(m.receives), len(m.messages))
	}
}

// step does what three bytes say. Few sources and tags, so that much meets; the two highest values are wildcards.
func (m *model) step(op, a, b byte, width int32) {
	source, tag := int32(a)%width, int32(b)%width
	switch op % 8 {
	case 0, 1, 2:
		m.arrive(source, tag)
	case 3, 4, 5:
		if a >= 192 {
			source = AnySource
		}
		if b >= 192 {
			tag = AnyTag
		}
		m.receive(source, tag)
	case 6:
		m.withdraw(int(a))
	case 7:
		if m.take(int(a)); b < 16 {
			m.close(b&1 != 0, b&2 != 0)
		}
	}
	m.checkCounts()
}

func TestTableAgainstLists(t *testing.T) {
	for _, width := range []int32{1, 2, 5, 40, 256} {
		seed := rand.Uint64()
		t.Logf("width %d: seed %#x", width, seed)
		c := rand.New(rand.NewPCG(seed, 0))
		m := &model{t: t}
		for range 10 {
			// Phases in which one side is ahead make the queues long.
			ahead := c.IntN(3)
			for range 1500 {
				op := byte(c.Uint32())
				if ahead < 2 && c.IntN(3) == 0 {
					op = byte(3 * ahead)
				}
				m.step(op, byte(c.Uint32()), byte(c.Uint32()), width)
			}
			if c.IntN(2) == 0 {
				m.drain()
				m.checkCounts()
			}
		}
		m.drain()
	}
}

func FuzzTable(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\xff\xff\x03\x01\xff\x00\x01\x02"))
	f.Add([]byte("\x03\xff\xff\x03\x01\x01\x03\xff\x01\x03\x01\xff\x06\x01\x00\x00\x01\x01\x00\x01\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &model{t: t}
		for ; len(b) >= 3 && m.number < 500; b = b[3:] {
			m.step(b[0], b[1], b[2], 3)
		}
		m.drain()
	})
}

// TestTags goes to the ends of the range: sources and tags that look like wildcards in some bits must not be taken
// for them.
func TestTags(t *testing.T) {
	const top = 1<<31 - 1
	values := []int32{0, 1, top - 1, top}
	m := &model{t: t}
	for _, source := range values {
		for _, tag := range values {
			m.arrive(source, tag)
		}
	}
	for _, source := range values {
		m.receive(source, top)
		m.receive(source, AnyTag)
	}
	m.receive(AnySource, 0)
	m.receive(AnySource, AnyTag)
	m.drain()
}

// longest is the length of the longest chain of queues in a class, and steps what a look-up costs at most.
func (c *class[T]) longest() int {
	n := 0
	for _, q := range c.slots {
		k := 0
		for ; q != nil; q = q.chain {
			k++
		}
		n = max(n, k)
	}
	return n
}

// TestConstantTime counts the steps of a look-up instead of measuring time: they are the length of a chain.
func TestConstantTime(t *testing.T) {
	const n = 1 << 12
	keys := map[string]func(i int) (source, tag int32){
		"one":     func(int) (int32, int32) { return 3, 4 },
		"sources": func(i int) (int32, int32) { return int32(i), 0 },
		"tags":    func(i int) (int32, int32) { return 0, int32(i) },
		"strides": func(i int) (int32, int32) { return int32(i % 64), int32(i/64) << 16 },
		"squares": func(i int) (int32, int32) { return int32(i % 128), int32(i / 128) },
		"equal":   func(i int) (int32, int32) { return int32(i), int32(i) },
	}
	for name, key := range keys {
		var table Table[rcv, msg]
		for i := range n {
			source, tag := key(i)
			table.AddUnexpected(&newMessage(i, source, tag).kept, source, tag)
			r := newReceive(i, source, tag)
			table.Post(&r.posted, source, tag)
		}
		for c := range classes {
			if k := table.kept[c].longest(); k > 24 {
				t.Errorf("%s: a chain of class %d has %d queues", name, c, k)
			}
		}
		if k := table.posted[none].longest(); k > 24 {
			t.Errorf("%s: a chain of receives has %d queues", name, k)
		}
	}
}

// TestPassingTags uses each tag once, as programs do that number their messages. The table must not remember them.
func TestPassingTags(t *testing.T) {
	var table Table[rcv, msg]
	r, m := newReceive(0, 0, 0), newMessage(0, 0, 0)
	tag := int32(0)
	pass := func() {
		for range 100 {
			tag++
			table.Post(&r.posted, 1, tag)
			if table.TakePosted(1, tag) != r {
				t.Fatal("the receive was not found")
			}
			table.AddUnexpected(&m.kept, 1, tag)
			if table.FindUnexpected(AnySource, tag) != m {
				t.Fatal("the message was not found")
			}
			table.RemoveUnexpected(&m.kept)
		}
	}
	pass()
	if n := testing.AllocsPerRun(50, pass); n != 0 {
		t.Errorf("%v allocations", n)
	}
	for c := range classes {
		if n := len(table.kept[c].slots); n > 16 {
			t.Errorf("class %d has grown to %d slots", c, n)
		}
	}
}

func TestAllocs(t *testing.T) {
	var table Table[rcv, msg]
	r, wild := newReceive(1, 0, 0), newReceive(2, 0, 0)
	m := newMessage(1, 0, 0)
	if n := testing.AllocsPerRun(100, func() {
		table.Post(&r.posted, 1, 2)
		table.Post(&wild.posted, AnySource, AnyTag)
		if table.TakePosted(1, 2) != r || table.TakePosted(1, 2) != wild {
			t.Fatal("wrong order")
		}
		table.Post(&r.posted, 1, AnyTag)
		table.RemovePosted(&r.posted)
		table.AddUnexpected(&m.kept, 1, 2)
		if table.FindUnexpected(1, AnyTag) != m {
			t.Fatal("not found")
		}
		table.RemoveUnexpected(&m.kept)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkKept is a message that comes before its receive, in a table as open as may be and in a closed one.
func BenchmarkKept(b *testing.B) {
	for _, closed := range []bool{false, true} {
		b.Run(map[bool]string{false: "open", true: "closed"}[closed], func(b *testing.B) {
			var t Table[rcv, msg]
			t.Restrict(closed, closed, nil)
			var ms [64]*msg
			for i := range ms {
				ms[i] = newMessage(i, 0, 0)
			}
			for b.Loop() {
				for i, m := range ms {
					t.AddUnexpected(&m.kept, 1, int32(i))
				}
				for i := range ms {
					t.RemoveUnexpected(&t.FindUnexpected(1, int32(i)).kept)
				}
			}
		})
	}
}
