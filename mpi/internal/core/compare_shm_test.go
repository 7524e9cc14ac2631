package core

import (
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// TestPackedCall: a packed call is unpacked to the same call for all types, operations, roots and lengths that occur.
func TestPackedCall(t *testing.T) {
	ops := []Op{nil, NewOp(Elements{kind: datatype.Int64}, true, nil), NewOp(Elements{kind: datatype.Int64}, false, nil),
		Sum, Min, Max, Prod, Band, Bor, Bxor, Land, Lor, Lxor}
	for kind := datatype.Kind(0); kind < datatype.Kinds; kind++ {
		for _, op := range ops {
			for _, root := range []int{0, 1, 4095} {
				for _, bytes := range []int{0, 8, shapeLengthMax} {
					s := callShape{kind, opCode(op), root}
					x := packedCall(s.pack(perf.Reduce.Within(), bytes))
					if x.shape() != s || x.length() != bytes || x.call() != perf.Reduce.Within() || x.earlier() != 0 {
						t.Fatalf("%v of %d bytes is unpacked as %v of %d bytes", s, bytes, x.shape(), x.length())
					}
				}
			}
		}
	}
	lengths := map[uint64]int{}
	for i := range 64 {
		n := shapeLengthMax + 8*i<<(i%20)
		x := callShape{}.pack(perf.Barrier, n)
		if m, found := lengths[x]; found && m != n || x>>coll.CallBits != 0 {
			t.Errorf("lengths %d and %d are both packed as %x", m, n, x)
		}
		lengths[x] = n
	}
}

// TestPackedCallText: any bits are a text, because another process may have overwritten the memory.
func TestPackedCallText(t *testing.T) {
	for _, x := range []packedCall{0, 1<<64 - 1, 0xaaaaaaaaaaaaaaaa, 0x5555555555555555} {
		if text := (&callMismatch{calls: [2]packedCall{x, ^x}}).Error(); text == "" {
			t.Errorf("no text for %x", uint64(x))
		}
	}
	x := packedCall(callShape{datatype.Float64, opCode(Max), 3}.pack(perf.Reduce, 80))
	if got, want := fmt.Sprint(x), "Reduce of 10 elements of float64 (max) with root 3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	x = packedCall(callShape{kind: datatype.Int32}.pack(perf.Allgather, 1<<40))
	if got, want := fmt.Sprint(x), "Allgather of more than 262143 elements of int32"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
