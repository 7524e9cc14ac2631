package benchreference

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/bench/perftest"
	"github.com/ibrun/ibrun/bench/sockets"
)

// TestWords: the arguments are a kind, a role and the test, which survives.
func TestWords(t *testing.T) {
	s := sockets.Test{Op: "bw", Sizes: []int{8, 64}, Time: 5, Port: 7000}
	words := SocketsWords(perftest.Server, s)
	var got sockets.Test
	if err := json.Unmarshal([]byte(words[2]), &got); err != nil || !slices.Equal(words[:2], []string{"sockets", "server"}) ||
		got.Port != s.Port || !slices.Equal(got.Sizes, s.Sizes) {
		t.Errorf("%q: %+v, %v", words, got, err)
	}
	v := perftest.Test{Op: "send_lat", Device: "d", Size: 8, Settings: perftest.Settings{Depth: 3}}
	words = VerbsWords(perftest.Client, v)
	var back perftest.Test
	if err := json.Unmarshal([]byte(words[2]), &back); err != nil || back != v ||
		!slices.Equal(words[:2], []string{"verbs", "client"}) {
		t.Errorf("%q: %+v, %v", words, back, err)
	}
}

// TestErrors: wrong arguments are told from measurements that fail. Neither prints figures.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		words []string
		code  int
	}{
		{nil, exitUsage},
		{[]string{"sockets", "client"}, exitUsage},
		{[]string{"sockets", "judge", "{}"}, exitUsage},
		{[]string{"pigeons", "client", "{}"}, exitUsage},
		{[]string{"sockets", "client", "{"}, exitUsage},
		{[]string{"verbs", "client", "{"}, exitUsage},
		{[]string{"sockets", "client", `{"op":"fly"}`}, exitFailed},
		{[]string{"sockets", "server", `{"op":"fly"}`}, exitFailed},
	} {
		var out, errs strings.Builder
		if code := Main(c.words, &out, &errs); code != c.code || out.Len() > 0 || !strings.HasPrefix(errs.String(), "reference: ") {
			t.Errorf("%q: exit %d, want %d; %q, %q", c.words, code, c.code, out.String(), errs.String())
		}
	}
}
