package jobsocket

import (
	"errors"
	"testing"
)

const sampleRequest = `{"ranks":true,"snapshots":true,"stacks":[1,2],"later":1}`

// TestRequestPrefixes: a truncated request is an error.
func TestRequestPrefixes(t *testing.T) {
	for i := range len(sampleRequest) {
		if q, err := DecodeRequest([]byte(sampleRequest[:i])); !errors.Is(err, ErrMessage) {
			t.Errorf("%q is %+v, %v", sampleRequest[:i], q, err)
		}
	}
	if q, err := DecodeRequest([]byte(sampleRequest)); err != nil || !q.Ranks || !q.Snapshots || len(q.Stacks) != 2 {
		t.Errorf("%+v, %v", q, err)
	}
}

// FuzzRequest: every text is a request or ErrMessage.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(sampleRequest))
	f.Fuzz(func(t *testing.T, text []byte) {
		if q, err := DecodeRequest(text); (q == nil) != errors.Is(err, ErrMessage) {
			t.Errorf("%q is %+v, %v", text, q, err)
		}
	})
}
