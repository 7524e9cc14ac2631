package checking

import (
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/reduction"
	"github.com/ibrun/ibrun/perf"
)

// TestPackedCall: a packed call is unpacked to the same call for all types, operations, roots and lengths that occur.
func TestPackedCall(t *testing.T) {
	ops := []reduction.Op{OpNone, OpUser, OpCommutative, reduction.Sum, reduction.Min, reduction.Max, reduction.Prod,
		reduction.Band, reduction.Bor, reduction.Bxor, reduction.Land, reduction.Lor, reduction.Lxor}
	for kind := datatype.Kind(0); kind < datatype.Kinds; kind++ {
		for _, op := range ops {
			for _, root := range []int{0, 1, 4095} {
				for _, bytes := range []int{0, 8, shapeLengthMax} {
					s := Shape{kind, uint8(op), root}
					x := Packed(s.Pack(perf.Reduce.Within(), bytes))
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
		x := Shape{}.Pack(perf.Barrier, n)
		if m, found := lengths[x]; found && m != n || x>>coll.CallBits != 0 {
			t.Errorf("lengths %d and %d are both packed as %x", m, n, x)
		}
		lengths[x] = n
	}
}

// TestPackedCallText: any bits are a text, because another process may have overwritten the memory.
func TestPackedCallText(t *testing.T) {
	for _, x := range []Packed{0, 1<<64 - 1, 0xaaaaaaaaaaaaaaaa, 0x5555555555555555} {
		if text := (&Mismatch{Calls: [2]Packed{x, ^x}}).Error(); text == "" {
			t.Errorf("no text for %x", uint64(x))
		}
	}
	x := Packed(Shape{datatype.Float64, uint8(reduction.Max), 3}.Pack(perf.Reduce, 80))
	if got, want := fmt.Sprint(x), "Reduce of 10 elements of float64 (max) with root 3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	x = Packed(Shape{Kind: datatype.Int32}.Pack(perf.Allgather, 1<<40))
	if got, want := fmt.Sprint(x), "Allgather of more than 262143 elements of int32"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
