package match

import (
	"cmp"
	"slices"
)

// next is the class after c of those in which no more than may is open; none after the last. These are the classes where
// messages lie, so a table that is closed has less to do for each message, and nothing to ask.
func next(c, may int) int { return (c - may) & may }

// Allows tells whether a receive may leave open what this one does.
func (t *Table[R, M]) Allows(source, tag int32) bool { return classOf(source, tag)&t.closed == 0 }

// Restrict says what no receive may leave open from now on. Where a receive waits that does so, it stays open. It returns what is
// closed now. waiting finds the Message inside of what waits.
func (t *Table[R, M]) Restrict(source, tag bool, waiting func(*M) *Message[M]) (sourceClosed, tagClosed bool) {
	closed := 0
	if source && t.posted[openSource].used == 0 && t.posted[openBoth].used == 0 {
		closed |= openSource
	}
	if tag && t.posted[openTag].used == 0 && t.posted[openBoth].used == 0 {
		closed |= openTag
	}
	if closed != t.closed {
		t.rearrange(closed, waiting)
	}
	return closed&openSource != 0, closed&openTag != 0
}

// rearrange moves the messages that wait into the classes where they are looked for from now on, in order of arrival.
func (t *Table[R, M]) rearrange(closed int, waiting func(*M) *Message[M]) {
	var all []*link[M]
	for _, q := range t.kept[none].slots {
		for ; q != nil; q = q.chain {
			for l := q.head; l != nil; l = l.next {
				all = append(all, l)
			}
		}
	}
	slices.SortFunc(all, func(a, b *link[M]) int { return cmp.Compare(a.seq, b.seq) })
	keys := make([]key, len(all))
	for i, l := range all {
		keys[i] = l.q.key
		t.RemoveUnexpected(waiting(l.of))
	}
	t.closed = closed
	for i, l := range all {
		t.AddUnexpected(waiting(l.of), keys[i].source, keys[i].tag)
	}
}

// CountAhead tells how many receives wait that leave nothing open and name this source and tag, and whether any waits that leaves
// something open.
func (t *Table[R, M]) CountAhead(source, tag int32) (same int, open bool) {
	if t.lone != nil {
		if t.wants == (key{source, tag}) {
			same = 1
		}
		return same, false
	}
	if q := t.posted[none].find(key{source, tag}); q != nil {
		same = q.length
	}
	return same, t.open != 0
}
