package inspect

import (
	"encoding/json"
	"errors"
	"testing"
)

const (
	sampleRequest  = `{"ranks":true,"stacks":[1,2]}`
	sampleResponse = `{"job":{"job":"k1","host":"n0","node":0,"nodes":1,"pid":7,"ranks":2,"ranks_here":2,"command":["a"],` +
		`"began":"2026-01-01T00:00:00Z"},"ranks":[{"rank":1,"pid":8,"state":"running","waits":[{"op":"Recv","peer":0}]}],` +
		`"stacks":{"1":"goroutine 1"},"later":1}`
)

// TestMessagePrefixes: a truncated message is an error.
func TestMessagePrefixes(t *testing.T) {
	for i := range len(sampleRequest) {
		if q, err := decodeRequest([]byte(sampleRequest[:i])); !errors.Is(err, errProtocol) {
			t.Errorf("%q is %+v, %v", sampleRequest[:i], q, err)
		}
	}
	for i := range len(sampleResponse) {
		if a, err := decodeResponse([]byte(sampleResponse[:i])); !errors.Is(err, errProtocol) {
			t.Errorf("%q is %+v, %v", sampleResponse[:i], a, err)
		}
	}
	if q, err := decodeRequest([]byte(sampleRequest)); err != nil || !q.Ranks || len(q.Stacks) != 2 {
		t.Errorf("%+v, %v", q, err)
	}
	if a, err := decodeResponse([]byte(sampleResponse)); err != nil || a.Job.ID != "k1" || a.Ranks[0].Waits[0].Op != "Recv" ||
		a.Stacks[1] == "" {
		t.Errorf("%+v, %v", a, err)
	}
	for _, bad := range []string{"{}", `{"job":{}}`, `{"job":{"job":"k","node":1,"nodes":1}}`,
		`{"job":{"job":"k","nodes":1,"ranks_here":1}}`,
		`{"job":{"job":"k","nodes":1,"ranks":1},"ranks":[{"rank":1}]}`,
		`{"job":{"job":"k","nodes":1,"ranks":1},"ranks":[{"rank":-1}]}`} {
		if a, err := decodeResponse([]byte(bad)); !errors.Is(err, errProtocol) {
			t.Errorf("%s is %+v, %v", bad, a, err)
		}
	}
}

// FuzzMessages: every response that is accepted can be shown and encoded.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(sampleRequest))
	f.Add([]byte(sampleResponse))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = decodeRequest(text) // every request is valid or an error
		a, err := decodeResponse(text)
		if err != nil {
			return
		}
		groups := groupRanks(a.Ranks, a.Ranks, sampleInterval)
		table := newTable(*a.Job, a.Ranks, a.Ranks, sampleInterval)
		v := &View{Job: *a.Job, Groups: groups, WaitCycle: waitCycle(a.Ranks)}
		if _, err := json.Marshal(v); err != nil || len(table.Rows) != len(a.Ranks) {
			t.Errorf("%s: %v", text, err)
		}
	})
}
