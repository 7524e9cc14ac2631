package proto

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// TestGolden checks the bytes of each kind of message: the wire format must not change.
func TestGolden(t *testing.T) {
	v := envelope{context: 0x01020304, Match: Match{0x11121314, 0x21222324}}
	w := [5]uint64{0xa1, 0xa2, 0xa3, 0xa4, noWord}
	const (
		env   = "0403020114131211" + "24232221"
		first = "a100000000000000"
		three = first + "a200000000000000" + "a300000000000000"
		five  = three + "a400000000000000" + "ffffffffffffffff"
	)
	for k, want := range map[kind]string{
		kindEager:        "01000000" + env,
		kindEagerSync:    "02000000" + env + first,
		kindFirstFrag:    "03000000" + env + first,
		kindRTS:          "04000000" + env + five,
		kindAssist:       "05000000" + env + five,
		kindATP:          "06000000" + env + first + "a200000000000000",
		kindFIN:          "07000000" + env + first,
		kindDataRequest:  "08000000" + env + three,
		kindFrag:         "09000000" + env,
		kindData:         "0a000000" + env + first + "a200000000000000",
		kindPause:        "0b000000" + env,
		kindResume:       "0c000000" + env,
		kindRTR:          "0d000000" + env + five,
		kindPut:          "0e000000" + env + five,
		kindRTRCancel:    "0f000000" + env + first,
		kindRTRCancelAck: "10000000" + env + first,
		kindWatch:        "14000000" + env,
		kindLeft:         "15000000" + env + first,
		kindRefuse:       "16000000" + env + first + "a200000000000000",
		kindWithdraw:     "19000000" + env + first,
		kindWithdrawn:    "1a000000" + env + first,
		kindFlush:        "1b000000" + env + first,
		kindFlushed:      "1c000000" + env + first,
		kindElapsed:      "1d000000" + env + five,
	} {
		v.kind = k
		b, n := header(v, w[:wordCount[k]]...)
		if got := hex.EncodeToString(b[:n]); got != want {
			t.Errorf("kind %d:\n got %s\nwant %s", k, got, want)
		}
		got, gotWords, payload, err := parse(b[:n])
		if err != nil || got != v || len(payload) != 0 || !bytes.Equal(wordBytes(gotWords, wordCount[k]), wordBytes(w, wordCount[k])) {
			t.Errorf("kind %d: parsed as %+v %x %x, %v", k, got, gotWords, payload, err)
		}
	}
}

func wordBytes(w [5]uint64, n int) []byte {
	b, end := header(envelope{kind: kindFIN}, w[:n]...)
	return b[envelopeBytes:end]
}

// TestPrefixes: no strict prefix of a header is a valid message. (The length of a payload is the transport's.)
func TestPrefixes(t *testing.T) {
	for k := kindEager; k < kindCount; k++ {
		b, n := header(envelope{kind: k, context: 1, Match: Match{2, 3}}, make([]uint64, wordCount[k])...)
		for i := range n {
			if _, _, _, err := parse(b[:i]); !errors.Is(err, fabric.ErrCorrupt) {
				t.Errorf("kind %d: %d of %d bytes: %v", k, i, n, err)
			}
		}
		carries := k <= kindFirstFrag || k == kindFrag || k == kindData || k == kindNote
		if _, _, payload, err := parse(append(b[:n:n], 7)); carries != (err == nil) || carries && !bytes.Equal(payload, []byte{7}) {
			t.Errorf("kind %d with a payload: %x, %v", k, payload, err)
		}
	}
	for _, k := range []kind{0, kindCount, 255} {
		b, n := header(envelope{kind: k}, 1, 2, 3, 4, 5)
		if _, _, _, err := parse(b[:n]); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("kind %d: %v", k, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for k := kindEager; k < kindCount; k++ {
		b, n := header(envelope{kind: k, context: 1, Match: Match{2, 3}}, make([]uint64, wordCount[k])...)
		f.Add(b[:n:n])
		f.Add(append(b[:n:n], "payload"...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, w, payload, err := parse(b)
		if err != nil {
			if !errors.Is(err, fabric.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		h, n := header(v, w[:wordCount[v.kind]]...)
		if again := append(h[:n:n], payload...); !bytes.Equal(again, b) {
			t.Fatalf("%x is %+v %x %x, which is written as %x", b, v, w, payload, again)
		}
	})
}
