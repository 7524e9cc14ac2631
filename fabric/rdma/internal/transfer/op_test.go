package transfer

import "testing"

// TestListEnds: transfers end in any order, and leave the list in theirs. Their memory is used again.
func TestListEnds(t *testing.T) {
	var p Pool
	var l List
	var ops [3]*Op
	for i := range ops {
		ops[i] = p.Get()
		ops[i].Token = uint64(i)
		p.Active.Add(1)
		l.Add(ops[i])
	}
	if l.First != ops[0] || l.Last != ops[2] || l.Unposted != ops[0] {
		t.Fatalf("%+v", l)
	}
	l.Unposted = ops[1] // the first is posted
	if l.End(ops[1], &p); l.First != ops[0] || p.Active.Load() != 2 || p.free != nil {
		t.Errorf("the second has ended: %+v, %d are active", l, p.Active.Load())
	}
	if l.End(ops[0], &p); l.First != ops[2] || l.Unposted != ops[2] || p.Active.Load() != 1 {
		t.Errorf("the first has ended: %+v, %d are active", l, p.Active.Load())
	}
	if o := p.Get(); o != ops[1] || o.Token != 0 || o.Ended {
		t.Errorf("not the memory of one that has left the list: %+v", o)
	}
	if l.End(ops[2], &p); l.First != nil || l.Last != nil || l.Unposted != nil || p.Active.Load() != 0 {
		t.Errorf("all have ended: %+v, %d are active", l, p.Active.Load())
	}
}

// TestListRestart: pieces that were carried out over one lane are kept. Over several lanes they were
// carried out in any order, so only what was kept before counts.
func TestListRestart(t *testing.T) {
	var l List
	o, ended := &Op{Bytes: 8, Posted: 8, Done: 3}, &Op{Bytes: 8, Posted: 8, Done: 8, Ended: true}
	l.Add(o)
	l.Add(ended)
	l.Unposted = nil
	if l.Restart(1); o.Posted != 3 || o.Kept != 3 || o.Most != 3 || !o.Oldest || ended.Oldest || l.Unposted != o {
		t.Errorf("over one lane: %+v", o)
	}
	o.Posted, o.Done, o.KeyState = 8, 6, KeysReady
	if l.Restart(2); o.Posted != 3 || o.Done != 3 || o.Kept != 3 || o.Most != 6 || o.KeyState != KeysNone {
		t.Errorf("over two lanes: %+v", o)
	}
	if ended.Posted != 8 || ended.Done != 8 {
		t.Errorf("one that has ended: %+v", ended)
	}
}
