package watcher

import (
	"bytes"
	"encoding/json"
	"testing"
)

// messages returns valid orders and events, each with the number of files that it needs.
func messages(t testing.TB) (texts []string, files []int) {
	t.Helper()
	for _, m := range []any{
		order{Run: &Command{Path: "/bin/true", Args: []string{"true"}, Cgroup: "job-0"}, Positions: []int{0, 1, 3}},
		order{Signal: 2}, order{Kill: true}, order{Leftovers: &Leftovers{Trees: []string{"/tmp/a"}, Files: []string{"/tmp/b"}}},
		event{PID: 7, Cgroup: "/sys/fs/cgroup/ibrun-job-0"}, event{Err: "start", Errno: 2}, event{Ended: &Ended{Stuck: []int{8}}},
	} {
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		o, _ := m.(order)
		texts, files = append(texts, string(text)), append(files, len(o.Positions))
	}
	return texts, files
}

func TestMessagePrefixes(t *testing.T) {
	texts, files := messages(t)
	for i, text := range texts {
		if o, err := decodeOrder([]byte(text), files[i]); err != nil {
			t.Errorf("%s is %+v, %v", text, o, err)
		}
		if e, err := decodeEvent([]byte(text)); err != nil {
			t.Errorf("%s is %+v, %v", text, e, err)
		}
		for n := range len(text) {
			if o, err := decodeOrder([]byte(text[:n]), files[i]); err == nil {
				t.Errorf("%s was decoded as %+v", text[:n], o)
			}
			if e, err := decodeEvent([]byte(text[:n])); err == nil {
				t.Errorf("%s was decoded as %+v", text[:n], e)
			}
		}
	}
	for _, bad := range []string{`{"Positions":[0]}`, `{"Positions":[0,16]}`, `{"Positions":[-1,1]}`} {
		if o, err := decodeOrder([]byte(bad), 2); err == nil {
			t.Errorf("%s was decoded as %+v", bad, o)
		}
	}
}

func FuzzMessages(f *testing.F) {
	texts, files := messages(f)
	for i := range texts {
		f.Add([]byte(texts[i]), files[i])
	}
	f.Fuzz(func(t *testing.T, text []byte, files int) {
		if o, err := decodeOrder(text, files); err == nil {
			again, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			o2, err := decodeOrder(again, files)
			if err != nil {
				t.Fatalf("%q was decoded as %+v, and again: %v", text, o, err)
			}
			// The texts are compared, because an empty list is the same as none.
			if third, err := json.Marshal(o2); err != nil || !bytes.Equal(again, third) {
				t.Errorf("%q was decoded as %s, and again as %s, %v", text, again, third, err)
			}
		}
		if e, err := decodeEvent(text); err == nil && e == nil {
			t.Errorf("%q: no event and no error", text)
		}
	})
}
