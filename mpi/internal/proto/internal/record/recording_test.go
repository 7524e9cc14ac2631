package record

import (
	"slices"
	"testing"

	"github.com/ibrun/ibrun/mpi/internal/proto/internal/lock"
	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

// testBit is the bit of the contexts of collectives.
const testBit = 1 << 4

func newRecording(t *testing.T) *Recording {
	t.Helper()
	r, err := perf.NewRecorder(make([]byte, perf.PageBytes), perf.Identity{Size: 1}, perf.On)
	if err != nil {
		t.Fatal(err)
	}
	m := lock.New()
	c := New(&m, r, nil, false, testBit)
	return &c
}

func (c *Recording) snapshot(t *testing.T) *perf.Snapshot {
	t.Helper()
	s, err := c.Configured.Page().Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestOnTheWay: a message of each kind that is counted when it is posted is counted once when it is
// handled, at the other end, or when it is dropped. So nothing is on its way afterwards. This holds
// while recording is off as well.
func TestOnTheWay(t *testing.T) {
	for _, on := range []bool{true, false} {
		for k := wire.Eager; k < wire.KindCount; k++ {
			c := newRecording(t)
			c.Switch(on)
			c.Posted(k)
			counted := c.snapshot(t).Sent
			if want := !k.IsEager() && !k.IsClock(); (counted == 1) != want {
				t.Errorf("on %v, kind %d: %d are on the way", on, k, counted)
			}
			c.Handled(k)
			arrived := c.snapshot(t).Arrived
			later := k == wire.FirstFrag || k == wire.Frag || k == wire.Elapsed // see the comment of the package
			if arrived != counted && !later || arrived != 0 && later {
				t.Errorf("on %v, kind %d: %d of %d have arrived", on, k, arrived, counted)
			}
			d := newRecording(t)
			d.Switch(on)
			if k.IsEager() {
				link := d.Configured.Link(0, perf.Shm)
				link.Out(8)
			}
			d.Posted(k)
			d.Dropped(k)
			if s := d.snapshot(t); s.Arrived != s.Sent {
				t.Errorf("on %v, kind %d: %d of %d are left after it was dropped", on, k, s.Sent-s.Arrived, s.Sent)
			}
		}
	}
}

// TestNames: the operations of a communicator have its name, in both of its contexts, until the
// name is removed.
func TestNames(t *testing.T) {
	c := newRecording(t)
	c.NameContext(3, "ring")
	for _, x := range []struct {
		context uint32
		want    string
	}{{3, "ring"}, {3 | testBit, "ring"}, {2, ""}} {
		lane := c.Enter(perf.Recv, x.context, 0, 0, 8)
		s := c.snapshot(t)
		if len(s.Current) != 1 || s.Current[0].Comm != x.want {
			t.Errorf("context %d: %+v, want %q", x.context, s.Current, x.want)
		}
		c.Configured.Leave(lane)
	}
	if s := c.snapshot(t); !slices.Equal(s.Comms, []string{"ring"}) {
		t.Errorf("the names are %q", s.Comms)
	}
	c.NameContext(3, "")
	lane := c.Enter(perf.Recv, 3, 0, 0, 8)
	if s := c.snapshot(t); len(s.Current) != 1 || s.Current[0].Comm != "" {
		t.Errorf("after its name was removed: %+v", s.Current)
	}
	c.Configured.Leave(lane)
}

// TestSwitch: nothing is recorded while recording is off. Only a change is reported.
func TestSwitch(t *testing.T) {
	c := newRecording(t)
	calls := func() uint64 {
		n := uint64(0)
		for _, o := range c.snapshot(t).Ops {
			n += o.Calls
		}
		return n
	}
	want := uint64(0)
	for i, on := range []bool{true, false, false, true} {
		if changed, is := c.Switch(on), i == 1 || i == 3; changed != is {
			t.Errorf("switch %d to %v: changed %v", i, on, changed)
		}
		c.EndOp(perf.Send, 8, c.BeginOp(perf.Send, 8))
		if began := c.BeginCounted(perf.Send, 8); began != 0 {
			c.EndOp(perf.Send, 8, began)
		}
		if on {
			want += 2
		}
		if n := calls(); n != want {
			t.Errorf("after switch %d to %v: %d calls, want %d", i, on, n, want)
		}
	}
	m := lock.New()
	none := New(&m, nil, nil, false, 0)
	if none.Switch(true) || none.Active != nil {
		t.Error("recording without a recorder was switched on")
	}
}

// TestGeneral: no message takes a fast path while messages have notes.
func TestGeneral(t *testing.T) {
	m := lock.New()
	for _, noted := range []bool{false, true} {
		c := New(&m, nil, nil, noted, 0)
		if c.General != noted || (c.FastKind == uint64(wire.Eager)) == noted {
			t.Errorf("notes %v: general %v, fast kind %#x", noted, c.General, c.FastKind)
		}
	}
}
