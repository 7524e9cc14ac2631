package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// TestGolden checks the bytes of each kind of message: the wire format must not change. A kind
// without bytes in the table is an error.
func TestGolden(t *testing.T) {
	v := Envelope{Context: 0x01020304, Match: Match{0x11121314, 0x21222324}}
	w := [5]uint64{0xa1, 0xa2, 0xa3, 0xa4, NoWord}
	const (
		env   = "0403020114131211" + "24232221"
		first = "a100000000000000"
		three = first + "a200000000000000" + "a300000000000000"
		five  = three + "a400000000000000" + "ffffffffffffffff"
	)
	golden := map[Kind]string{
		Eager:        "01000000" + env,
		EagerSync:    "02000000" + env + first,
		FirstFrag:    "03000000" + env + first,
		RTS:          "04000000" + env + five,
		Assist:       "05000000" + env + five,
		ATP:          "06000000" + env + first + "a200000000000000",
		FIN:          "07000000" + env + first,
		DataRequest:  "08000000" + env + three,
		Frag:         "09000000" + env,
		Data:         "0a000000" + env + first + "a200000000000000",
		Pause:        "0b000000" + env,
		Resume:       "0c000000" + env,
		RTR:          "0d000000" + env + five,
		Put:          "0e000000" + env + five,
		RTRCancel:    "0f000000" + env + first,
		RTRCancelAck: "10000000" + env + first,
		ClockPing:    "11000000" + env + three,
		ClockPong:    "12000000" + env + three,
		ClockAdjust:  "13000000" + env + five,
		Watch:        "14000000" + env,
		Left:         "15000000" + env + first,
		Refuse:       "16000000" + env + first + "a200000000000000",
		ClockState:   "17000000" + env + first,
		Note:         "18000000" + env + first,
		Withdraw:     "19000000" + env + first,
		Withdrawn:    "1a000000" + env + first,
		Flush:        "1b000000" + env + first,
		Flushed:      "1c000000" + env + first,
		Elapsed:      "1d000000" + env + five,
	}
	for k := Eager; k < KindCount; k++ {
		want, ok := golden[k]
		if !ok {
			t.Errorf("kind %d is not in the table", k)
			continue
		}
		v.Kind = k
		b, n := Header(v, w[:k.Words()]...)
		if got := hex.EncodeToString(b[:n]); got != want {
			t.Errorf("kind %d:\n got %s\nwant %s", k, got, want)
		}
		got, gotWords, payload, err := Parse(b[:n])
		if err != nil || got != v || len(payload) != 0 || !bytes.Equal(wordBytes(gotWords, k.Words()), wordBytes(w, k.Words())) {
			t.Errorf("kind %d: parsed as %+v %x %x, %v", k, got, gotWords, payload, err)
		}
	}
}

func wordBytes(w [5]uint64, n int) []byte {
	b, end := Header(Envelope{Kind: FIN}, w[:n]...)
	return b[EnvelopeBytes:end]
}

// TestPrefixes: no strict prefix of a header is a valid message. (The length of a payload is the
// transport's.)
func TestPrefixes(t *testing.T) {
	for k := Eager; k < KindCount; k++ {
		b, n := Header(Envelope{Kind: k, Context: 1, Match: Match{2, 3}}, make([]uint64, k.Words())...)
		for i := range n {
			if _, _, _, err := Parse(b[:i]); !errors.Is(err, fabric.ErrCorrupt) {
				t.Errorf("kind %d: %d of %d bytes: %v", k, i, n, err)
			}
		}
		carries := k <= FirstFrag || k == Frag || k == Data || k == Note
		if _, _, payload, err := Parse(append(b[:n:n], 7)); carries != (err == nil) || carries && !bytes.Equal(payload, []byte{7}) {
			t.Errorf("kind %d with a payload: %x, %v", k, payload, err)
		}
	}
	for _, k := range []Kind{0, KindCount, 255} {
		b, n := Header(Envelope{Kind: k}, 1, 2, 3, 4, 5)
		if _, _, _, err := Parse(b[:n]); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("kind %d: %v", k, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for k := Eager; k < KindCount; k++ {
		b, n := Header(Envelope{Kind: k, Context: 1, Match: Match{2, 3}}, make([]uint64, k.Words())...)
		f.Add(b[:n:n])
		f.Add(append(b[:n:n], "payload"...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, w, payload, err := Parse(b)
		if err != nil {
			if !errors.Is(err, fabric.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		h, n := Header(v, w[:v.Kind.Words()]...)
		if again := append(h[:n:n], payload...); !bytes.Equal(again, b) {
			t.Fatalf("%x is %+v %x %x, which is written as %x", b, v, w, payload, again)
		}
	})
}
