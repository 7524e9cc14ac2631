package perf

import (
	"cmp"
	"math/bits"
	"slices"
	"sync/atomic"
)

// LongTraffic is the volume that was sent over a transport by a protocol other than Eager, in messages of about the same length.
// The protocol of a long message may have been chosen by measurement, so these show what was chosen.
type LongTraffic struct {
	Transport Transport
	Protocol  Protocol
	// MaxBytes is the largest length, a power of two from 4 KiB to LongestClass. All lengths are more than half of it, except those
	// of the entry of 4 KiB. It is -1 for messages that are longer than LongestClass.
	MaxBytes int
	Volume
}

// LongestClass is the largest MaxBytes of a LongTraffic.
const LongestClass = 1 << (minLengthBits + lengthClasses - 2)

// The classes of the lengths of long messages: powers of two.
const (
	minLengthBits = 12 // the first class has all up to 4 KiB
	lengthClasses = 16 // the last one has all above LongestClass
)

// lengthClass returns the class of messages of n bytes.
func lengthClass(n int) int {
	return min(max(bits.Len(uint(max(n, 1)-1))-minLengthBits, 0), lengthClasses-1)
}

// maxLength returns the largest length in a class, or -1.
func maxLength(class int) int {
	if class == lengthClasses-1 {
		return -1
	}
	return 1 << (minLengthBits + class)
}

// longVolumes are the messages that are not eager.
type longVolumes struct {
	out [8][Protocols - 1][lengthClasses]volume // by transport and protocol
	in  [8][Protocols - 1]volume
}

// sent returns what was sent, by transport, length and protocol.
func (v *longVolumes) sent() (all []LongTraffic) {
	for t := range Transports {
		for class := range lengthClasses {
			for p := Eager + 1; p < Protocols; p++ {
				if w := v.out[t][p-1][class].read(); w != (Volume{}) {
					all = append(all, LongTraffic{t, p, maxLength(class), w})
				}
			}
		}
	}
	return all
}

// sum returns the volume in a direction: 0 for Out, 1 for In.
func (v *longVolumes) sum(direction int, t Transport, p Protocol) (sum Volume) {
	if direction != 0 {
		return v.in[t][p-1].read()
	}
	for class := range v.out[t][p-1] {
		sum = sum.plus(v.out[t][p-1][class].read())
	}
	return sum
}

func (v *volume) count(n int) {
	add(&v.messages, 1)
	add(&v.bytes, uint64(n))
}

func (v *volume) read() Volume {
	return Volume{atomic.LoadUint64(&v.messages), atomic.LoadUint64(&v.bytes)}
}

// MergeLong adds up what several ranks sent, by transport, length and protocol.
func MergeLong(ranks ...*Snapshot) []LongTraffic {
	sums := map[LongTraffic]Volume{} // key: LongTraffic with zero Volume
	for _, s := range ranks {
		for _, t := range s.Long {
			v := t.Volume
			t.Volume = Volume{}
			sums[t] = sums[t].plus(v)
		}
	}
	all := make([]LongTraffic, 0, len(sums))
	for t, v := range sums {
		t.Volume = v
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b LongTraffic) int {
		return cmp.Or(cmp.Compare(a.Transport, b.Transport), cmp.Compare(uint(a.MaxBytes), uint(b.MaxBytes)), // -1 is the largest
			cmp.Compare(a.Protocol, b.Protocol))
	})
	return all
}
