package ranklink

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/auth"
)

func testRankInfo() *RankInfo {
	return &RankInfo{JobID: "j1", Secret: auth.Key{0: 0xab, 31: 0xcd}, Rank: 5, Size: 8, Node: 1, Nodes: 2, NodeName: "n1",
		NodeRanks: []int{4, 5, 6, 7}, LocalRank: 1, AgentPID: 77, Cores: []int{2, 3},
		Localities: []Locality{{NUMA: -1}, {}, {NUMA: 1, Rails: []int{0, 1}}, {}},
		Psets:      []Pset{{"the ocean", [][2]int{{0, 2}, {5, 7}}}}}
}

func mustEncode(t testing.TB, kind Kind, v any) []byte {
	t.Helper()
	packet, err := encode(kind, v)
	if err != nil {
		t.Fatal(err)
	}
	return packet
}

func TestPacketFormat(t *testing.T) {
	const secret = "ab" + "000000000000000000000000000000000000000000000000000000000000" + "cd"
	for want, got := range map[string][]byte{
		"\x01\x01" + `{"JobID":"j1","Secret":"` + secret + `","Rank":5,"Size":8,"Node":1,"Nodes":2,"NodeName":"n1",` +
			`"NodeRanks":[4,5,6,7],"LocalRank":1,"AgentPID":77,"Cores":[2,3],` +
			`"Localities":[{"NUMA":-1},{"NUMA":0},{"NUMA":1,"Rails":[0,1]},{"NUMA":0}],` +
			`"Psets":[{"Name":"the ocean","Ranks":[[0,2],[5,7]]}]}`: mustEncode(t, KindRankInfo, testRankInfo()),
		"\x02\x01":                 mustEncode(t, KindStarted, nil),
		"\x03\x01":                 mustEncode(t, KindFinalized, nil),
		"\x04\x01{\"Text\":\"a\"}": mustEncode(t, KindNote, Note{Text: "a"}),
		"\x04\x01{\"Text\":\"a\",\"Once\":\"b\"}": mustEncode(t, KindNote, Note{Text: "a", Once: "b"}),
		"\x05\x01":                 mustEncode(t, KindRequestStacks, nil),
		"\x06\x01{\"Text\":\"a\"}": mustEncode(t, KindStacks, Stacks{Text: "a"}),
	} {
		if string(got) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	m, ok, err := decode(mustEncode(t, KindRankInfo, testRankInfo()))
	if err != nil || !ok || m.Kind != KindRankInfo {
		t.Fatalf("%+v, %v, %v", m, ok, err)
	}
	var info RankInfo
	if err := m.Decode(&info); err != nil || !reflect.DeepEqual(&info, testRankInfo()) {
		t.Errorf("%+v, %v", info, err)
	}
	if err := info.check(); err != nil {
		t.Error(err)
	}
}

func TestPacketPrefixes(t *testing.T) {
	packet := mustEncode(t, KindRankInfo, testRankInfo())
	for i := range packet {
		m, ok, err := decode(packet[:i])
		if err == nil && ok {
			err = m.Decode(new(RankInfo)) // a message without a body is not malformed, but Decode returns an error
		}
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("first %d bytes: %v, want %v", i, err, ErrMalformed)
		}
	}
}

func TestDecodeSkipsUnknown(t *testing.T) {
	for _, packet := range []string{"\x00\x01{}", "\x70\x01{}", "\xff\x01no JSON", "\x01\x02{}", "\x04\x00"} {
		if m, ok, err := decode([]byte(packet)); ok || err != nil {
			t.Errorf("%q: %+v, %v, %v; want it ignored", packet, m, ok, err)
		}
	}
	m, ok, err := decode([]byte("\x04\x01" + `{"Text":"a","New":[1]}`))
	var note Note
	if err := errors.Join(err, m.Decode(&note)); !ok || err != nil || note.Text != "a" {
		t.Errorf("a body with a new field: %+v, %v, %v", note, ok, err)
	}
}

func TestDecodeErrors(t *testing.T) {
	long := "\x04\x01\"" + strings.Repeat("x", MaxPacket) + "\""
	for _, packet := range []string{"", "\x01", "\x04\x01{", "\x04\x01\x00", "\x04\x01{}{}", long} {
		if m, ok, err := decode([]byte(packet)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%.20q: %+v, %v, %v", packet, m, ok, err)
		}
	}
	m := Message{Kind: KindNote, body: []byte(`{"Text":7}`)}
	if err := m.Decode(new(Note)); !errors.Is(err, ErrMalformed) {
		t.Errorf("body of another type: %v", err)
	}
}

func TestRankInfoCheck(t *testing.T) {
	for name, corrupt := range map[string]func(*RankInfo){
		"rank beyond size":    func(h *RankInfo) { h.Size = 5 },
		"negative rank":       func(h *RankInfo) { h.Rank, h.NodeRanks[1] = -1, -1 },
		"local rank":          func(h *RankInfo) { h.LocalRank = 2 },
		"local rank beyond":   func(h *RankInfo) { h.LocalRank = 4 },
		"negative local rank": func(h *RankInfo) { h.LocalRank = -1 },
		"no ranks":            func(h *RankInfo) { h.NodeRanks = nil },
		"localities of some":  func(h *RankInfo) { h.Localities = h.Localities[:3] },
		"set beyond size":     func(h *RankInfo) { h.Psets[0].Ranks[1][1] = 8 },
		"set backwards":       func(h *RankInfo) { h.Psets[0].Ranks[1][1] = 4 },
		"set out of order":    func(h *RankInfo) { h.Psets[0].Ranks[1][0] = 3 },
		"set below 0":         func(h *RankInfo) { h.Psets[0].Ranks[0][0] = -1 },
		"set without ranks":   func(h *RankInfo) { h.Psets[0].Ranks = nil },
		"set without a name":  func(h *RankInfo) { h.Psets[0].Name = "" },
	} {
		h := testRankInfo()
		corrupt(h)
		if err := h.check(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEncodeErrors(t *testing.T) {
	if _, err := encode(KindNote, Note{Text: strings.Repeat("x", MaxPacket)}); err == nil {
		t.Error("a message larger than a packet: no error")
	}
	if _, err := encode(KindNote, func() {}); err == nil {
		t.Error("a message that is not JSON: no error")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(mustEncode(f, KindRankInfo, testRankInfo()))
	f.Add(mustEncode(f, KindStarted, nil))
	f.Add(mustEncode(f, KindNote, Note{Text: "text"}))
	f.Add(mustEncode(f, KindStacks, Stacks{"goroutine 1 [running]:\n", true}))
	f.Add([]byte("\x05\x01[]"))
	f.Fuzz(func(t *testing.T, packet []byte) {
		m, ok, err := decode(packet)
		if !ok || err != nil {
			return
		}
		if !m.Kind.isKnown() || len(packet) > MaxPacket || packet[1] != version {
			t.Fatalf("taken: %+v", m)
		}
		var info RankInfo
		if m.Decode(&info) != nil || info.check() != nil {
			return
		}
		again, err := encode(KindRankInfo, &info)
		if err != nil {
			return // longer than the input, and too long for a packet
		}
		m, _, err = decode(again)
		var back RankInfo
		if err != nil || m.Decode(&back) != nil || !bytes.Equal(mustEncode(t, KindRankInfo, back), again) {
			t.Fatalf("%+v became %+v, %v", info, back, err)
		}
	})
}
