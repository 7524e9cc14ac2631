package creation

import "testing"

// TestIDs: creations of different tags or groups have different ids, also where their bytes
// together are the same.
func TestIDs(t *testing.T) {
	ids := map[ID]string{}
	for name, id := range map[string]ID{
		"no group":           NewID("tag"),
		"one group":          NewID("tag", []int32{1, 2}),
		"other order":        NewID("tag", []int32{2, 1}),
		"two groups":         NewID("tag", []int32{1}, []int32{2}),
		"other tag":          NewID("ta", []int32{1, 2}),
		"byte of the tag":    NewID("tag\x02", []int32{1}),
		"one empty group":    NewID("tag", nil),
		"empty group before": NewID("tag", nil, []int32{1, 2}),
	} {
		if other, ok := ids[id]; ok {
			t.Errorf("%s and %s have the same id", name, other)
		}
		ids[id] = name
	}
	if ids[NewID("tag", []int32{1, 2})] != "one group" {
		t.Error("the same groups have different ids")
	}
}
