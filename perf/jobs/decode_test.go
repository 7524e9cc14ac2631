package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/jobsocket"
	"github.com/ibrun/ibrun/perf"
)

// sample returns a response with everything in it.
func sample(t testing.TB) (a *response, text string) {
	t.Helper()
	memory := make([]byte, perf.PageBytes)
	r, err := perf.NewRecorder(memory, perf.Identity{Rank: 1, Size: 2, PID: 8}, perf.All)
	if err != nil {
		t.Fatal(err)
	}
	r.End(perf.Send, 100, r.Begin(perf.Send, 100))
	link := r.Link(0, perf.Shm)
	link.Out(100)
	r.Enter(perf.Recv, 0, 7, 5)
	page, err := perf.Open(memory)
	if err != nil {
		t.Fatal(err)
	}
	s, err := page.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	a = &response{Version: jobsocket.Version, Layout: perf.Version,
		Job: &Job{ID: "k1", Host: "n0", Nodes: 1, PID: 7, Size: 2, Here: 2, Command: []string{"a"},
			Began: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
		Ranks:     []Rank{{Rank: 1, PID: 8, State: Running, Waits: []Wait{{Op: "Recv"}}}},
		Snapshots: []*perf.Snapshot{s}, Stacks: map[int]string{1: "goroutine 1"}}
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return a, strings.TrimSuffix(string(b), "}") + `,"later":1}`
}

// TestDecode: a response is decoded as it was encoded, with histograms, and a truncated one is an error.
func TestDecode(t *testing.T) {
	want, text := sample(t)
	got, err := decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, of := got.Snapshots[0], want.Snapshots[0]
	if !s.Began.Equal(of.Began) {
		t.Errorf("began %v, want %v", s.Began, of.Began)
	}
	s.Began = of.Began // the same time in another form
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if n := s.Ops[0].Latency.Count(); n != 1 || len(s.Current) != 1 || s.Current[0].Op != perf.Recv {
		t.Errorf("%d latencies, %+v", n, s)
	}
	for i := range len(text) {
		if a, err := decode([]byte(text[:i])); !errors.Is(err, ErrMessage) {
			t.Fatalf("%q is %+v, %v", text[:i], a, err)
		}
	}
}

func TestDecodeInvalid(t *testing.T) {
	const job = `"version":1,"job":{"job":"k","nodes":1,"ranks":1}`
	for _, bad := range []string{"{}", `{"job":{}}`, `{"version":1,"job":{"job":"k","node":1,"nodes":1}}`,
		`{"version":1,"job":{"job":"k","nodes":1,"ranks_here":1}}`, `{"version":1,"job":{"job":"k","nodes":1,"ranks_here":-1}}`,
		`{` + job + `,"ranks":[{"rank":1}]}`, `{` + job + `,"ranks":[{"rank":-1}]}`, `{` + job + `,"snapshots":[null]}`,
		`{` + job + `,"snapshots":[{"Rank":1,"Size":1}]}`, `{` + job + `,"snapshots":[{"Rank":0,"Size":2}]}`,
		`{` + job + `,"snapshots":[{"Size":1,"Ops":[{"Latency":"1 2 3."}]}]}`, `{` + job + `,"ranks":3}`} {
		if a, err := decode([]byte(bad)); !errors.Is(err, ErrMessage) {
			t.Errorf("%s is %+v, %v", bad, a, err)
		}
	}
}

// TestDecodeVersions: a response of another version has its job and a typed error, whatever else it has.
func TestDecodeVersions(t *testing.T) {
	const job = `"job":{"job":"k","nodes":1,"ranks":1},"ranks":"in another form"`
	for text, want := range map[string]VersionError{
		`{` + job + `}`:             {"k", 0, jobsocket.Version},
		`{"version":9,` + job + `}`: {"k", 9, jobsocket.Version},
		fmt.Sprintf(`{"version":%d,"layout":99,%s}`, jobsocket.Version, job): {"k", 99, perf.Version},
	} {
		a, err := decode([]byte(text))
		var v *VersionError
		if !errors.As(err, &v) || *v != want || a == nil || a.Job.Size != 1 {
			t.Errorf("%s is %+v, %v", text, a, err)
		}
	}
}

// FuzzDecode: the parts of every response that is accepted can be used and encoded.
func FuzzDecode(f *testing.F) {
	_, text := sample(f)
	f.Add([]byte(text))
	f.Add([]byte(`{"version":1,"job":{"job":"k","nodes":1,"ranks":1},"snapshots":[{"Size":1,"Ops":[{"Op":200,"Class":99}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := decode(text)
		if err != nil {
			return
		}
		for _, o := range perf.MergeOps(a.Snapshots...) {
			_, _ = o.Op.String(), o.Op.Direction()
			_, _ = o.Class.String(), o.Class.Max()
			_ = o.Latency.Quantile(0.99)
		}
		for _, r := range perf.MergeTraffic(a.Snapshots...) {
			_, _, _ = r.Direction.String(), r.Transport.String(), r.Protocol.String()
		}
		for _, s := range a.Snapshots {
			_, _ = s.Wall(time.Now()), perf.Share(s, s, time.Second)
			for _, c := range s.Current {
				_ = c.String()
			}
		}
		if _, err := json.Marshal(a); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	})
}
