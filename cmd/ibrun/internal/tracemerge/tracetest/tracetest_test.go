package tracetest

import (
	"strings"
	"testing"
)

const (
	names = `{"ph":"M","pid":0,"tid":1,"name":"thread_name","args":{"name":"calls"}},` +
		`{"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"calls"}}`
	send = `{"ph":"X","pid":0,"tid":1,"cat":"call","name":"Send","ts":1.0002,"dur":1.0002,"args":{"bytes":8}}`
	recv = `{"ph":"X","pid":1,"tid":1,"cat":"call","name":"Recv","ts":1.5002,"dur":1.0002,"args":{"bytes":8}}`
	left = `{"ph":"s","pid":0,"tid":1,"cat":"message","name":"message","id":1,"ts":1.2002,"args":{}}`
	met  = `{"ph":"f","pid":1,"tid":1,"bp":"e","cat":"message","name":"message","id":1,"ts":2.2002,"args":{}}`
)

// file is a file of some events.
func file(events ...string) []byte {
	return []byte(`{"traceEvents":[` + strings.Join(events, ",") + `]}`)
}

func TestRead(t *testing.T) {
	tl, err := Read(file(names, send, left, recv, met))
	if err != nil {
		t.Fatal(err)
	}
	a := tl.Arrows[1]
	if len(tl.Slices[0]) != 1 || len(tl.Slices[1]) != 1 || len(tl.Arrows) != 1 || a.From.At != 1200 || a.To.Pid != 1 ||
		tl.Slices[1][0].Until != 2500 {
		t.Errorf("%+v", tl)
	}
}

// TestRefuses: everything that Perfetto would drop, misplace or complain of is an error.
func TestRefuses(t *testing.T) {
	with := func(text, old, replacement string) string { return strings.Replace(text, old, replacement, 1) }
	for want, events := range map[string][]string{
		"has no name":       {send},
		"read as 131068 ns": {names, with(send, "1.0002", "131.069")},
		"neither holds":     {names, send, with(send, `"ts":1.0002`, `"ts":1.7002`)},
		"has no end":        {names, send, left},
		"ends an arrow":     {names, recv, met},
		"begins an arrow":   {names, send, left, left, recv, met},
		"and there is":      {names, send, left, recv, met, with(met, "2.2002", "2.3002")},
		"At:1200":           {names, send, left, recv, with(met, "2.2002", "1.1002")}, // before it began
		"binds to no slice": {names, send, with(left, "1.2002", "2.0002"), recv, met},
		"Name:Probe": {names, with(send, "Send", "Waitall"), // in which it lies, and is over
			with(with(send, "Send", "Probe"), `"ts":1.0002,"dur":1.0002`, `"ts":1.1002,"dur":0.1002`), left, recv, met},
		`Bp: ID:1`:        {names, send, left, recv, with(met, `"bp":"e",`, "")},
		"Cat:other":       {names, send, with(left, `"cat":"message"`, `"cat":"other"`), recv, met},
		`phase "i"`:       {names, `{"ph":"i","pid":0,"tid":1,"ts":1.0002}`},
		"metadata":        {with(names, "thread_name", "thread_label"), send},
		"unknown field":   {names, with(send, `"cat"`, `"color":1,"cat"`)},
		"slice {Ph:X Pid": {names, with(send, `"dur":1.0002`, `"dur":0.0002`)},
	} {
		if tl, err := Read(file(events...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v; want an error with %q", tl, err, want)
		}
	}
}
