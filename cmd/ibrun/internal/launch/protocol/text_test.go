package protocol

import (
	"encoding/json"
	"reflect"
	"testing"
)

// Paths, arguments and variables are bytes. A string in JSON would replace those that are not UTF-8.
func TestBytesThatAreNotText(t *testing.T) {
	const latin1 = "caf\xe9 \xff\x00<&\n\u2028"
	start := startMessage()
	start.Args, start.Env, start.Dir = Words{"./p", latin1, ""}, Words{"A=" + latin1}, "/"+latin1
	if got, err := decodeNodeStart(encode(t, start)); err != nil || !reflect.DeepEqual(got, start) {
		t.Errorf("start message: %+v, %v", got, err)
	}
	for _, want := range []any{
		&Task{Env: Words{"A=" + latin1}, Ranks: []RankTask{{Args: Words{latin1, ""}, Env: Words{latin1}, Path: latin1}},
			Programs: []ProgramTask{{Dir: latin1, Env: Words{latin1}}}},
		&ProgramFile{Path: latin1},
	} {
		got := reflect.New(reflect.TypeOf(want).Elem()).Interface()
		text, err := json.Marshal(want)
		if err == nil {
			err = json.Unmarshal(text, got)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
}
