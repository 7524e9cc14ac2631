package match

import (
	"cmp"
	"slices"
)

// nextClass returns the class after c whose wildcards are all in allowed; exact after the last. Messages are in exactly these
// classes, so a restricted table has less work for each message, and no condition to check.
func nextClass(c, allowed int) int { return (c - allowed) & allowed }

// Allows reports whether a receive may have the wildcards of this source and tag.
func (t *Table[R, M]) Allows(source, tag int32) bool { return classOf(source, tag)&t.forbidden == 0 }

// Restrict forbids receives with the wildcard source, the wildcard tag, or both, and allows the others. A wildcard that a posted
// receive uses stays allowed. It returns what is forbidden now. node must return the Message inside of an M.
func (t *Table[R, M]) Restrict(source, tag bool, node func(*M) *Message[M]) (sourceForbidden, tagForbidden bool) {
	forbidden := 0
	if source && t.posted[anySource].used == 0 && t.posted[anyBoth].used == 0 {
		forbidden |= anySource
	}
	if tag && t.posted[anyTag].used == 0 && t.posted[anyBoth].used == 0 {
		forbidden |= anyTag
	}
	if forbidden != t.forbidden {
		t.reclassify(forbidden, node)
	}
	return forbidden&anySource != 0, forbidden&anyTag != 0
}

// reclassify moves the unexpected messages, in order of arrival, into the classes that the new restrictions leave.
func (t *Table[R, M]) reclassify(forbidden int, node func(*M) *Message[M]) {
	var all []*element[M]
	for _, q := range t.unexpected[exact].slots {
		for ; q != nil; q = q.chain {
			for x := q.head; x != nil; x = x.next {
				all = append(all, x)
			}
		}
	}
	slices.SortFunc(all, func(a, b *element[M]) int { return cmp.Compare(a.seq, b.seq) })
	keys := make([]key, len(all))
	for i, x := range all {
		keys[i] = x.queue.key
		t.RemoveUnexpected(node(x.owner))
	}
	t.forbidden = forbidden
	for i, x := range all {
		t.AddUnexpected(node(x.owner), keys[i].source, keys[i].tag)
	}
}

// CountAhead returns the number of posted receives with exactly this source and tag, and whether any posted receive has a
// wildcard.
func (t *Table[R, M]) CountAhead(source, tag int32) (same int, wildcards bool) {
	if t.single != nil {
		if t.singleKey == (key{source, tag}) {
			same = 1
		}
		return same, false
	}
	if q := t.posted[exact].find(key{source, tag}); q != nil {
		same = q.length
	}
	return same, t.wildcards != 0
}
