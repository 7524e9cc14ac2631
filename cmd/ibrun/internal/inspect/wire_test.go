package inspect

import (
	"encoding/json"
	"errors"
	"testing"
)

const (
	someQuestion = `{"ranks":true,"stacks":[1,2]}`
	someAnswer   = `{"job":{"job":"k1","host":"n0","node":0,"nodes":1,"pid":7,"ranks":2,"ranks_here":2,"command":["a"],` +
		`"began":"2026-01-01T00:00:00Z"},"ranks":[{"rank":1,"pid":8,"state":"running","waits":[{"op":"Recv","peer":0}]}],` +
		`"stacks":{"1":"goroutine 1"},"later":1}`
)

// TestWirePrefixes: what was cut short is refused.
func TestWirePrefixes(t *testing.T) {
	for i := range len(someQuestion) {
		if q, err := decodeQuestion([]byte(someQuestion[:i])); !errors.Is(err, errTalk) {
			t.Errorf("%q is %+v, %v", someQuestion[:i], q, err)
		}
	}
	for i := range len(someAnswer) {
		if a, err := decodeAnswer([]byte(someAnswer[:i])); !errors.Is(err, errTalk) {
			t.Errorf("%q is %+v, %v", someAnswer[:i], a, err)
		}
	}
	if q, err := decodeQuestion([]byte(someQuestion)); err != nil || !q.Ranks || len(q.Stacks) != 2 {
		t.Errorf("%+v, %v", q, err)
	}
	if a, err := decodeAnswer([]byte(someAnswer)); err != nil || a.Job.ID != "k1" || a.Ranks[0].Waits[0].Op != "Recv" ||
		a.Stacks[1] == "" {
		t.Errorf("%+v, %v", a, err)
	}
	for _, bad := range []string{"{}", `{"job":{}}`, `{"job":{"job":"k","node":1,"nodes":1}}`,
		`{"job":{"job":"k","nodes":1,"ranks_here":1}}`,
		`{"job":{"job":"k","nodes":1,"ranks":1},"ranks":[{"rank":1}]}`,
		`{"job":{"job":"k","nodes":1,"ranks":1},"ranks":[{"rank":-1}]}`} {
		if a, err := decodeAnswer([]byte(bad)); !errors.Is(err, errTalk) {
			t.Errorf("%s is %+v, %v", bad, a, err)
		}
	}
}

// FuzzWire: whatever comes, what is taken can be looked at and sent on.
func FuzzWire(f *testing.F) {
	f.Add([]byte(someQuestion))
	f.Add([]byte(someAnswer))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = decodeQuestion(text) // any question has an answer
		a, err := decodeAnswer(text)
		if err != nil {
			return
		}
		groups := group(a.Ranks, a.Ranks, lookApart)
		table := newTable(*a.Job, a.Ranks, a.Ranks, lookApart)
		v := &View{Job: *a.Job, Groups: groups, Circle: circle(a.Ranks)}
		if _, err := json.Marshal(v); err != nil || len(table.Rows) != len(a.Ranks) {
			t.Errorf("%s: %v", text, err)
		}
	})
}
