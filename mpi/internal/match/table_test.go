package match

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/internal/soaktest"
)

// rcv and msg are the elements of the tables in the tests. They are numbered in order of arrival.
type rcv struct {
	posted      Receive[rcv]
	number      int
	source, tag int32
}

type msg struct {
	node        Message[msg]
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
	m.node.Init(m)
	return m
}

func fits(source, tag int32, m *msg) bool {
	return (source == AnySource || source == m.source) && (tag == AnyTag || tag == m.tag)
}

// model is a table and a reference implementation of it: two lists in order of arrival.
type model struct {
	t        testing.TB
	table    Table[rcv, msg]
	receives []*rcv
	messages []*msg
	number   int

	source, tag bool // the forbidden wildcards
}

// restrict restricts the table, and checks that wildcards of posted receives stay allowed.
func (m *model) restrict(source, tag bool) {
	for _, r := range m.receives {
		source = source && r.source != AnySource
		tag = tag && r.tag != AnyTag
	}
	m.source, m.tag = source, tag
	s, t := m.table.Restrict(source, tag, func(x *msg) *Message[msg] { return &x.node })
	if s != source || t != tag || m.table.Allows(AnySource, 0) == source || m.table.Allows(0, AnyTag) == tag {
		m.t.Fatalf("step %d: forbidden %v %v, want %v %v", m.number, s, t, source, tag)
	}
}

// checkAhead checks CountAhead for the receive that was posted last.
func (m *model) checkAhead(source, tag int32) {
	if source == AnySource || tag == AnyTag {
		return
	}
	same, wildcards := 1, false
	for _, r := range m.receives {
		if r.source == source && r.tag == tag {
			same++
		}
		wildcards = wildcards || r.source == AnySource || r.tag == AnyTag
	}
	if s, o := m.table.CountAhead(source, tag); s != same || o != wildcards {
		m.t.Fatalf("step %d: %d with this source and tag, wildcards %v; want %d and %v", m.number, s, o, same, wildcards)
	}
}

// receive posts a receive, or removes the message that it is matched with.
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
		if forbidden := source == AnySource && m.source || tag == AnyTag && m.tag; posted == forbidden {
			m.t.Fatalf("step %d: receive from %d with tag %d posted: %v", m.number, source, tag, posted)
		}
		if posted {
			m.checkAhead(source, tag)
			m.receives = append(m.receives, r)
		}
	case i < 0 || got != m.messages[i]:
		m.t.Fatalf("step %d: receive from %d with tag %d found %v, want message %d of the list", m.number, source, tag, got, i)
	default:
		m.table.RemoveUnexpected(&got.node)
		m.messages = slices.Delete(m.messages, i, i+1)
	}
}

// arrive matches a message with a receive, or stores it.
func (m *model) arrive(source, tag int32) {
	m.number++
	x := newMessage(m.number, source, tag)
	i := slices.IndexFunc(m.receives, func(r *rcv) bool { return fits(r.source, r.tag, x) })
	got := m.table.TakePosted(source, tag)
	switch {
	case i < 0 && got == nil:
		m.messages = append(m.messages, x)
		m.table.AddUnexpected(&x.node, source, tag)
	case i < 0 || got != m.receives[i]:
		m.t.Fatalf("step %d: message from %d with tag %d is matched with %v, want receive %d of the list",
			m.number, source, tag, got, i)
	default:
		if got.posted.Posted() {
			m.t.Fatalf("step %d: a matched receive is still posted", m.number)
		}
		m.receives = slices.Delete(m.receives, i, i+1)
	}
}

// removeReceive removes the i-th receive, and removeMessage the i-th message, if there are so many.
func (m *model) removeReceive(i int) {
	if i >= len(m.receives) {
		return
	}
	r := m.receives[i]
	if !r.posted.Posted() {
		m.t.Fatalf("posted receive %d: Posted returns false", r.number)
	}
	m.table.RemovePosted(&r.posted)
	m.receives = slices.Delete(m.receives, i, i+1)
}

func (m *model) removeMessage(i int) {
	if i < len(m.messages) {
		m.table.RemoveUnexpected(&m.messages[i].node)
		m.messages = slices.Delete(m.messages, i, i+1)
	}
}

// drain drains the table, and checks that each element was passed on once, and messages of one sender in order.
func (m *model) drain() {
	receives, messages := map[*rcv]bool{}, map[*msg]bool{}
	last := map[[2]int32]int{}
	m.table.Drain(
		func(r *rcv) {
			if receives[r] || r.posted.Posted() {
				m.t.Fatalf("receive %d was drained twice, or is still posted", r.number)
			}
			receives[r] = true
		},
		func(x *msg) {
			if messages[x] || x.number < last[[2]int32{x.source, x.tag}] {
				m.t.Fatalf("message %d was drained twice, or out of order", x.number)
			}
			messages[x] = true
			last[[2]int32{x.source, x.tag}] = x.number
		})
	for _, r := range m.receives {
		if !receives[r] {
			m.t.Fatalf("receive %d was not drained", r.number)
		}
	}
	for _, x := range m.messages {
		if !messages[x] {
			m.t.Fatalf("message %d was not drained", x.number)
		}
	}
	if len(receives) != len(m.receives) || len(messages) != len(m.messages) {
		m.t.Fatalf("drained %d receives and %d messages, want %d and %d",
			len(receives), len(messages), len(m.receives), len(m.messages))
	}
	m.receives, m.messages = nil, nil
}

func (m *model) checkCounts() {
	if r, x := m.table.Lengths(); r != len(m.receives) || x != len(m.messages) {
		m.t.Fatalf("step %d: the table has %d receives and %d messages, want %d and %d",
			m.number, r, x, len(m.receives), len(m.messages))
	}
}

// step runs the operation that three bytes encode. There are few sources and tags, so that many match. High values are
// wildcards.
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
		m.removeReceive(int(a))
	case 7:
		if m.removeMessage(int(a)); b < 16 {
			m.restrict(b&1 != 0, b&2 != 0)
		}
	}
	m.checkCounts()
}

func TestTableAgainstLists(t *testing.T) {
	for _, width := range []int32{1, 2, 5, 40, 256} {
		seed := soaktest.Seed(t)
		t.Logf("width %d", width)
		c := rand.New(rand.NewPCG(seed, 0))
		m := &model{t: t}
		for range 10 {
			// In some phases there are more messages or more receives, so that the queues become long.
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

// TestTags uses the limits of the range: sources and tags that equal wildcards in some bits must not be confused with them.
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

// longest returns the length of the longest chain of queues in a class, which is the maximum cost of a look-up.
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

// TestConstantTime counts the steps of a look-up, that is, the length of a chain, instead of measuring time.
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
			table.AddUnexpected(&newMessage(i, source, tag).node, source, tag)
			r := newReceive(i, source, tag)
			table.Post(&r.posted, source, tag)
		}
		for c := range classCount {
			if k := table.unexpected[c].longest(); k > 24 {
				t.Errorf("%s: a chain of class %d has %d queues", name, c, k)
			}
		}
		if k := table.posted[exact].longest(); k > 24 {
			t.Errorf("%s: a chain of receives has %d queues", name, k)
		}
	}
}

// TestTagsUsedOnce uses each tag once, like programs that number their messages. The table must not grow with the tags.
func TestTagsUsedOnce(t *testing.T) {
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
			table.AddUnexpected(&m.node, 1, tag)
			if table.FindUnexpected(AnySource, tag) != m {
				t.Fatal("the message was not found")
			}
			table.RemoveUnexpected(&m.node)
		}
	}
	pass()
	if n := alloctest.Count(50, pass); n != 0 {
		t.Errorf("%v allocations", n)
	}
	for c := range classCount {
		if n := len(table.unexpected[c].slots); n > 16 {
			t.Errorf("class %d has grown to %d slots", c, n)
		}
	}
}

func TestAllocs(t *testing.T) {
	var table Table[rcv, msg]
	r, wild := newReceive(1, 0, 0), newReceive(2, 0, 0)
	m := newMessage(1, 0, 0)
	if n := alloctest.Count(100, func() {
		table.Post(&r.posted, 1, 2)
		table.Post(&wild.posted, AnySource, AnyTag)
		if table.TakePosted(1, 2) != r || table.TakePosted(1, 2) != wild {
			t.Fatal("wrong order")
		}
		table.Post(&r.posted, 1, AnyTag)
		table.RemovePosted(&r.posted)
		table.AddUnexpected(&m.node, 1, 2)
		if table.FindUnexpected(1, AnyTag) != m {
			t.Fatal("not found")
		}
		table.RemoveUnexpected(&m.node)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkUnexpected measures an unexpected message in a table without restrictions and in one that forbids all wildcards.
func BenchmarkUnexpected(b *testing.B) {
	for _, restricted := range []bool{false, true} {
		b.Run(map[bool]string{false: "unrestricted", true: "restricted"}[restricted], func(b *testing.B) {
			var t Table[rcv, msg]
			t.Restrict(restricted, restricted, nil)
			var ms [64]*msg
			for i := range ms {
				ms[i] = newMessage(i, 0, 0)
			}
			for b.Loop() {
				for i, m := range ms {
					t.AddUnexpected(&m.node, 1, int32(i))
				}
				for i := range ms {
					t.RemoveUnexpected(&t.FindUnexpected(1, int32(i)).node)
				}
			}
		})
	}
}

// TestUnexpected: the messages with one source and tag come in the order of arrival, and one can be removed from their middle.
func TestUnexpected(t *testing.T) {
	var table Table[rcv, msg]
	var all []*msg
	for i := range 6 {
		m := newMessage(i, 1, int32(i%2))
		all = append(all, m)
		table.AddUnexpected(&m.node, 1, int32(i%2))
	}
	for m := range table.Unexpected(1, 0) {
		if m == all[2] {
			table.RemoveUnexpected(&m.node)
			break
		}
	}
	if got, want := slices.Collect(table.Unexpected(1, 0)), []*msg{all[0], all[4]}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := slices.Collect(table.Unexpected(2, 0)); got != nil {
		t.Errorf("of another source: %v", got)
	}
	if table.FindUnexpected(AnySource, AnyTag) != all[0] {
		t.Error("the first message was not found")
	}
}
