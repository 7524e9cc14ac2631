package transfer

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

var errRefused = errors.New("refused")

// newRegions returns regions of a device that gives the keys 1, 2, 3 and so on, and refuses memory
// of more than 100 bytes.
func newRegions() *Regions {
	var last uint32
	t := new(Regions)
	t.Init(77, func(b []byte) (reg Registration, err error) {
		if len(b) > 100 {
			return reg, errRefused
		}
		for i := range reg.Keys {
			last++
			reg.Keys[i] = MemoryKeys{Local: last, Remote: last + 1000}
		}
		return reg, nil
	})
	return t
}

// TestRegions: memory that is registered twice has one registration, which ends with the last
// deregistration. A handle of an earlier registration is not valid in a slot that is used again.
func TestRegions(t *testing.T) {
	r, b := newRegions(), make([]byte, 64)
	first, err := r.Add(b)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.Add(b); err != nil || again != first {
		t.Errorf("registered again: %+v, %v; want %+v", again, err, first)
	}
	if err := r.Remove(first.Local); err != nil {
		t.Error(err)
	}
	if keys, err := r.Cover(first.Local, b[10:20]); err != nil || keys[0] != (MemoryKeys{1, 1001}) {
		t.Errorf("registered once: %+v, %v", keys, err)
	}
	if err := r.Remove(first.Local); err != nil {
		t.Error(err)
	}
	if _, err := r.Cover(first.Local, b); err == nil {
		t.Error("memory is registered after the last deregistration")
	}
	second, err := r.Add(b[:32])
	if err != nil || uint32(second.Local) != uint32(first.Local) {
		t.Errorf("%+v, %v: the slot of the first one is free", second, err)
	}
	if err := r.Remove(first.Local); err == nil {
		t.Error("a handle of an earlier registration was accepted")
	}
	if _, err := r.Cover(second.Local, b); err == nil {
		t.Error("a region covers more than its memory")
	}
	if _, err := r.Add(make([]byte, 101)); !errors.Is(err, errRefused) {
		t.Errorf("a registration that the device refuses: %v", err)
	}
}

// TestRegionsCopy: a transfer of a process with itself copies between memory that is registered.
func TestRegionsCopy(t *testing.T) {
	r, b := newRegions(), []byte("0123456789")
	reg, err := r.Add(b)
	if err != nil {
		t.Fatal(err)
	}
	at := fabric.RemoteKey{Addr: reg.Remote.Addr + 2, Key: reg.Remote.Key}
	got := make([]byte, 3)
	if err := r.Copy(false, got, at); err != nil || string(got) != "234" {
		t.Errorf("%q, %v", got, err)
	}
	if err := r.Copy(true, []byte("xyz"), at); err != nil || string(b) != "01xyz56789" {
		t.Errorf("%q, %v", b, err)
	}
	if err := r.Copy(false, make([]byte, 9), at); err == nil {
		t.Error("more was copied than is registered")
	}
}

// TestRows: the row of a region has the keys of all rails, and its number is in the key. A row that
// belongs to another region by now is not used.
func TestRows(t *testing.T) {
	r := newRegions()
	r.rows = make([]byte, maxRows*rowBytes)
	if _, err := r.Add(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	reg, err := r.Add(make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	row, rkey := RowOfKey(reg.Remote.Key)
	if row != 1 || reg.Remote.Key != RemoteKey(77, row, rkey) {
		t.Errorf("key %#x, row %d", reg.Remote.Key, row)
	}
	bytes := r.rows[RowOffset(row):][:rowBytes]
	o := Op{KeyState: KeysReading, Row: row}
	o.RKeys[0] = rkey
	if o.TakeKeys(bytes); o.KeyState != KeysReady || o.RKeys[1] != rkey+1 || o.Row != row {
		t.Errorf("%+v", o)
	}
	binary.LittleEndian.PutUint32(bytes, rkey+5)
	if o.TakeKeys(bytes); o.KeyState != KeysNone || o.Row != NoRow || o.RKeys[0] != rkey {
		t.Errorf("the row of another region: %+v", o)
	}
	for _, other := range []uint64{reg.Remote.Key ^ 1, reg.Remote.Key ^ 1<<32, RemoteKey(78, row, rkey)} {
		row, rkey := RowOfKey(other)
		if other == RemoteKey(77, row, rkey) {
			t.Errorf("%#x counts as a key", other)
		}
	}
}
