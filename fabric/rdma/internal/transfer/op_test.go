package transfer

import (
	"errors"
	"testing"
)

// TestListEnds: transfers end in any order, and leave the list in theirs. Their memory is used
// again.
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

// TestListRestart: pieces that were carried out over one lane are kept. Over several lanes they
// were carried out in any order, so only what was kept before counts.
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

// TestNextCarriers: a transfer uses the first rail until the keys of the others are known, and no more
// than its share of that while they are being read.
func TestNextCarriers(t *testing.T) {
	for _, c := range []struct {
		op   Op
		want Carriers
	}{
		{Op{Rail: AnyRail}, FirstLanes},
		{Op{Rail: AnyRail, KeyState: KeysReading, Posted: 2}, FirstLanes},
		{Op{Rail: AnyRail, KeyState: KeysReading, Posted: 3}, NoLane},
		{Op{Rail: 1, KeyState: KeysReading}, NoLane},
		{Op{Rail: 1}, FirstLanes}, // without room to read the keys
		{Op{Rail: AnyRail, KeyState: KeysReady}, AllLanes},
		{Op{Rail: 1, KeyState: KeysReady}, LanesOfRail},
	} {
		c.op.Bytes = 12
		if got := c.op.NextCarriers(1, 4); got != c.want {
			t.Errorf("%+v: %v, want %v", c.op, got, c.want)
		}
	}
}

// TestOpComplete: a transfer is complete with its last piece, unless it has failed.
func TestOpComplete(t *testing.T) {
	o, failed := Op{Bytes: 5}, Op{Bytes: 5, Err: errors.New("failed")}
	if o.Complete(3) || !o.Complete(2) || failed.Complete(5) || failed.Done != 5 {
		t.Errorf("%+v, %+v", o, failed)
	}
}

// TestListFailed: the oldest transfer that has failed is found, unless it has ended already.
func TestListFailed(t *testing.T) {
	bad := errors.New("bad")
	var p Pool
	var l List
	ops := []*Op{{}, {Err: bad}, {}, {Err: bad}}
	for _, o := range ops {
		l.Add(o)
	}
	for _, want := range []*Op{ops[1], ops[3], nil} {
		o := l.Failed()
		if o != want {
			t.Fatalf("%+v, want %+v", o, want)
		}
		if o != nil {
			l.End(o, &p)
		}
	}
	if l.First != ops[0] {
		t.Errorf("the oldest transfer is %+v", l.First)
	}
}
