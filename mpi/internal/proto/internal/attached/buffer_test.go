package attached

import (
	"math/rand/v2"
	"testing"
)

// TestBlocks: blocks do not overlap, whatever the order in which they are allocated and freed. When
// all are free the whole buffer can be allocated.
func TestBlocks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var a Buffer
	buf := make([]byte, 4096)
	a.Attach(buf)
	inUse := map[int][]byte{}
	refused := 0
	for range 10_000 {
		if random.IntN(2) == 0 {
			for id, b := range inUse {
				for _, x := range b {
					if x != byte(id) {
						t.Fatalf("block %d has the bytes of block %d", byte(id), x)
					}
				}
				a.Free(id)
				delete(inUse, id)
				break
			}
			continue
		}
		b, id, ok := a.Alloc(random.IntN(1000))
		if !ok {
			refused++
			continue
		}
		for i := range b {
			b[i] = byte(id)
		}
		inUse[id] = b
	}
	if refused == 0 || refused > 9000 {
		t.Errorf("%d blocks did not fit", refused)
	}
	for id := range inUse {
		a.Free(id)
	}
	if b, _, ok := a.Alloc(len(buf)); !ok || len(b) != len(buf) || a.Unused() {
		t.Errorf("%d of %d bytes were allocated, %v", len(b), len(buf), ok)
	}
}

// TestAttach: one buffer is attached at a time, and nothing is allocated without.
func TestAttach(t *testing.T) {
	var a Buffer
	if _, _, ok := a.Alloc(0); ok || a.Attached() || !a.Unused() {
		t.Error("without a buffer a block was allocated")
	}
	buf := make([]byte, 10)
	if !a.Attach(buf) || a.Attach(buf) || !a.Attached() {
		t.Error("a buffer was not attached, or two were")
	}
	if _, _, ok := a.Alloc(11); ok {
		t.Error("a block that is too long was allocated")
	}
	if got := a.Detach(); &got[0] != &buf[0] || a.Attached() {
		t.Error("it is still attached")
	}
}
