package pmi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// script is a launcher that expects given lines and answers each. It fails the test if a line is written in pieces or out of
// order.
type script struct {
	t      testing.TB
	steps  []string // line, answer, line, answer, ...
	unread bytes.Buffer
	closed bool
}

func (s *script) Write(b []byte) (int, error) {
	if s.unread.Len() > 0 {
		s.t.Errorf("%q written before the answer %q was read", b, s.unread.String())
	}
	if len(s.steps) == 0 || string(b) != s.steps[0] {
		s.t.Errorf("client writes %q, want %q", b, s.steps)
		return 0, errors.New("script ended")
	}
	s.unread.WriteString(s.steps[1])
	s.steps = s.steps[2:]
	return len(b), nil
}

func (s *script) Read(b []byte) (int, error) { return s.unread.Read(b) }

func (s *script) Close() error {
	if s.closed {
		return os.ErrClosed
	}
	s.closed = true
	return nil
}

func (s *script) SetDeadline(time.Time) error { return nil }

var (
	slurmInit = []string{
		"cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n",
		"cmd=get_maxes\n", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n",
		"cmd=get_my_kvsname\n", "cmd=my_kvsname rc=0 kvsname=7.0\n",
	}
	// MPICH 4.0: the values are in another order, and rc is missing.
	oldHydraInit = []string{
		"cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
		"cmd=get_maxes\n", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n",
		"cmd=get_my_kvsname\n", "cmd=my_kvsname kvsname=kvs_9_0_1_host\n",
	}
	// MPICH 4.3 offers 1.2 to a client that asks for 1.1.
	newHydraInit = []string{
		"cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n",
		"cmd=get_maxes\n", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n",
		"cmd=get_my_kvsname\n", "cmd=my_kvsname rc=0 kvsname=kvs_9\n",
	}
)

// play connects rank 1 of 4 to a scripted launcher. At its end the test fails if steps were not used.
func play(t testing.TB, init []string, steps ...string) *Client {
	t.Helper()
	s := &script{t: t, steps: slices.Concat(init, steps)}
	t.Cleanup(func() {
		if len(s.steps) > 0 {
			t.Errorf("client never wrote %q", s.steps[0])
		}
	})
	c, err := newClient(&endpoint{conn: s, rank: 1, size: 4})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClientLinesSlurm(t *testing.T) {
	c := play(t, slurmInit,
		"cmd=get_universe_size\n", "cmd=universe_size rc=0 size=12\n",
		"cmd=get_appnum\n", "cmd=appnum rc=0 appnum=-1\n",
		"cmd=put kvsname=7.0 key=a1 value=c0ffee\n", "cmd=put_result rc=0\n",
		"cmd=barrier_in\n", "cmd=barrier_out rc=0\n",
		"cmd=get kvsname=7.0 key=a0\n", "cmd=get_result rc=0 value=beef\n",
		"cmd=get kvsname=7.0 key=a9\n", "cmd=get_result rc=1\n",
		"cmd=get kvsname=7.0 key=PMI_process_mapping\n", "cmd=get_result rc=0 value=(vector,(0,2,2))\n",
		"cmd=get kvsname=7.0 key=PMI_process_mapping\n", "cmd=get_result rc=0 value=(vector,(0,2,1))\n",
		"cmd=finalize\n", "cmd=finalize_ack rc=0\n",
	)
	if c.Rank() != 1 || c.Size() != 4 || c.KVSName() != "7.0" {
		t.Errorf("rank %d of %d in %q", c.Rank(), c.Size(), c.KVSName())
	}
	if n, err := c.UniverseSize(); n != 12 || err != nil {
		t.Errorf("universe size %d, %v", n, err)
	}
	if n, err := c.AppNum(); n != -1 || err != nil {
		t.Errorf("appnum %d, %v", n, err)
	}
	if err := c.Put("a1", "c0ffee"); err != nil {
		t.Error(err)
	}
	if err := c.Barrier(t.Context()); err != nil {
		t.Error(err)
	}
	if v, err := c.Get("a0"); v != "beef" || err != nil {
		t.Errorf("get: %q, %v", v, err)
	}
	if _, err := c.Get("a9"); !errors.Is(err, ErrNotFound) {
		t.Errorf("get of a key that is not there: %v", err)
	}
	if nodes, err := c.Mapping(); err != nil || !slices.Equal(nodes, []int{0, 0, 1, 1}) {
		t.Errorf("mapping %v, %v", nodes, err)
	}
	if ranks, err := c.NodeRanks(); err != nil || !slices.Equal(ranks, []int{1, 3}) {
		t.Errorf("ranks of this node %v, %v", ranks, err)
	}
	if err := c.Finalize(); err != nil {
		t.Error(err)
	}
	if _, err := c.Get("a0"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("get after finalize: %v", err)
	}
	if err := c.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("close after finalize: %v", err)
	}
}

func TestClientLinesHydra(t *testing.T) {
	c := play(t, oldHydraInit,
		"cmd=put kvsname=kvs_9_0_1_host key=k value=v\n", "cmd=put_result rc=0 msg=success\n",
		"cmd=barrier_in\n", "cmd=barrier_out\n",
		"cmd=get kvsname=kvs_9_0_1_host key=k\n", "cmd=get_result rc=0 msg=success value=v\n",
		"cmd=get kvsname=kvs_9_0_1_host key=x\n", "cmd=get_result rc=-1 msg=key_x_not_found value=unknown\n",
		"cmd=get kvsname=kvs_9_0_1_host key=y\n", "cmd=get_result rc=0 found=FALSE\n",
		"cmd=get kvsname=kvs_9_0_1_host key=PMI_process_mapping\n", "cmd=get_result rc=0 value=\n",
		"cmd=abort exitcode=3 message=two\\ words\n", "",
	)
	if err := c.Put("k", "v"); err != nil {
		t.Error(err)
	}
	if err := c.Barrier(t.Context()); err != nil {
		t.Error(err)
	}
	if v, err := c.Get("k"); v != "v" || err != nil {
		t.Errorf("get: %q, %v", v, err)
	}
	for _, key := range []string{"x", "y"} {
		if _, err := c.Get(key); !errors.Is(err, ErrNotFound) {
			t.Errorf("get of a key that is not there: %v", err)
		}
	}
	if _, err := c.Mapping(); !errors.Is(err, ErrNotFound) {
		t.Errorf("empty mapping: %v", err)
	}
	if err := c.GroupBarrier(t.Context(), []int{1, 2}, 0); !errors.Is(err, ErrNotSupported) {
		t.Errorf("group barrier: %v", err)
	}
	if err := c.Abort(3, "two words"); err != nil {
		t.Error(err)
	}
}

func TestClientGroupBarrier(t *testing.T) {
	c := play(t, newHydraInit,
		"cmd=barrier_in group=0,1,3:5\n", "cmd=barrier_out rc=0 tag=5\n",
		"cmd=barrier_in\n", "cmd=barrier_out rc=0 tag=0\n",
	)
	if err := c.GroupBarrier(t.Context(), []int{3, 1, 0, 1}, 5); err != nil {
		t.Error(err)
	}
	if err := c.GroupBarrier(t.Context(), []int{1}, 5); err != nil {
		t.Error(err)
	}
	if err := c.GroupBarrier(t.Context(), []int{0, 2}, 5); err == nil {
		t.Error("barrier of a group without this rank: no error")
	}
	if err := c.Barrier(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestClientRequestsRank(t *testing.T) {
	steps := []string{"cmd=initack pmiid=2\n", "cmd=initack rc=0\ncmd=set size=4\ncmd=set rank=2\ncmd=set debug=0\n"}
	s := &script{t: t, steps: slices.Concat(steps, slurmInit)}
	c, err := newClient(&endpoint{conn: s, rankUnknown: true, id: 2})
	if err != nil || c.Rank() != 2 || c.Size() != 4 {
		t.Fatalf("%+v, %v", c, err)
	}
}

func TestClientInitRefused(t *testing.T) {
	for name, test := range map[string]struct {
		at     int // index in slurmInit
		answer string
		want   string
	}{
		"closed immediately": {1, "", "init: launcher closed the connection"},
		"cut short":          {1, "cmd=response_to", "init"},
		"version refused":    {1, "cmd=response_to_init rc=14 pmi_version=2 pmi_subversion=0\n", "rc=14"},
		"other version":      {1, "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n", `version "2"`},
		"no number":          {1, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=x\n", "pmi_subversion=x"},
		"other answer":       {1, "cmd=maxes\n", "pmi: init: the launcher answered maxes, want response_to_init; perhaps this rank"},
		"no answer":          {1, "cmd=initialise\n", `answered "initialise", want response_to_init`},
		"PMI-2":              {1, "    42cmd=response-to-init;", "malformed"},
		"closed later":       {3, "", "get_maxes: launcher closed the connection"},
		"limits no number":   {3, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=big\n", "vallen_max=big"},
		"no room":            {3, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=9\n", "no room"},
		"no name":            {5, "cmd=my_kvsname rc=0\n", "no room"},
		"endless name":       {5, "cmd=my_kvsname kvsname=" + strings.Repeat("x", 1000) + "\n", "no room"},
	} {
		steps := slices.Clone(slurmInit)
		steps[test.at] = test.answer
		s := &script{t: t, steps: steps}
		c, err := newClient(&endpoint{conn: s, rank: 0, size: 1})
		if c != nil || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, %v; want %q", name, c, err, test.want)
		}
		if !s.closed {
			t.Errorf("%s: the connection was not closed", name)
		}
	}
	if _, err := newClient(&endpoint{conn: &script{t: t}, rank: 3, size: 3}); err == nil {
		t.Error("rank 3 of 3: no error")
	}
}

func TestClientBrokenConnectionIsFinal(t *testing.T) {
	c := play(t, slurmInit, "cmd=barrier_in\n", "")
	err := c.Barrier(t.Context())
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "barrier_in") {
		t.Errorf("barrier: %v", err)
	}
	if again := c.Put("k", "v"); again != err {
		t.Errorf("put: %v, want the first error again", again)
	}
}

func TestClientRefusalIsNotFinal(t *testing.T) {
	c := play(t, slurmInit,
		"cmd=put kvsname=7.0 key=PMI_x value=v\n", "cmd=put_result rc=1 msg=Keys\\ are\\ reserved\n",
		"cmd=put kvsname=7.0 key=x value=v\n", "cmd=put_result\n",
	)
	if err := c.Put("PMI_x", "v"); err == nil || !strings.Contains(err.Error(), "rc=1 Keys are reserved") {
		t.Errorf("put of a reserved key: %v", err)
	}
	if err := c.Put("x", "v"); err != nil {
		t.Error(err)
	}
}

func TestClientRefusesInvalidWords(t *testing.T) {
	c := play(t, slurmInit)
	for _, word := range []string{"", "two words", "a=b", "a;b", `a\b`, "a\nb", "ü", strings.Repeat("x", 1024)} {
		if err := c.Put(word, "v"); err == nil {
			t.Errorf("put with key %.20q: no error", word)
		}
		if err := c.Put("k", word); err == nil {
			t.Errorf("put of value %.20q: no error", word)
		}
		if _, err := c.Get(word); err == nil {
			t.Errorf("get of key %.20q: no error", word)
		}
	}
	if err := c.Put("k", strings.Repeat("x", 1000)); err == nil {
		t.Error("put that takes more than one command: no error")
	}
	if err := c.PutBlob("k", make([]byte, MaxBlob+1)); err == nil {
		t.Error("blob that is too large: no error")
	}
}

func TestClientBadBlobs(t *testing.T) {
	for name, values := range map[string][]string{
		"no hex":         {"xyz"},
		"no length":      {"0000"},
		"too long":       {"00000001aabb"},
		"huge":           {"ffffffff"},
		"odd":            {"00000001a"},
		"piece missing":  {"00000002aa"},
		"piece is empty": {"00000002aa", ""},
	} {
		var steps []string
		for i, value := range values {
			steps = append(steps, "cmd=get kvsname=7.0 key="+pieceKey("b", i)+"\n", "cmd=get_result rc=0 value="+value+"\n")
		}
		if name == "piece missing" {
			steps = append(steps, "cmd=get kvsname=7.0 key=b-1\n", "cmd=get_result rc=1\n")
		}
		c := play(t, slurmInit, steps...)
		if blob, err := c.GetBlob("b"); err == nil {
			t.Errorf("%s: no error but % x", name, blob)
		}
	}
}

func TestClientLongAbortFitsOneCommand(t *testing.T) {
	for _, n := range []int{900, 1000, 1001, 1002, 1003, 5000} {
		w := &recorder{}
		c := &Client{conn: w}
		if err := c.Abort(1, "x"+strings.Repeat(" ", n)); err != nil {
			t.Fatal(err)
		}
		m, rest, err := decode(w.wrote.Bytes())
		if err != nil || rest != w.wrote.Len() || rest > maxCommand || m.cmd != "abort" || m.get("exitcode") != "1" {
			t.Errorf("%d spaces: %d bytes, %+v, %v", n, w.wrote.Len(), m, err)
		}
	}
}

func TestClientCancelBarrier(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := &blocking{script: script{t: t, steps: append(slices.Clone(slurmInit), "cmd=barrier_in\n", "")},
		block: cancel, free: make(chan struct{})}
	c, err := newClient(&endpoint{conn: b, rank: 0, size: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Barrier(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "barrier_in") {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if err := c.Put("k", "v"); err == nil {
		t.Error("put after a cancelled barrier: no error")
	}
}

// blocking is a script that never gives the last answer: the read calls block and then waits for Close.
type blocking struct {
	script
	block func()
	free  chan struct{}
	once  sync.Once
}

func (b *blocking) Read(p []byte) (int, error) {
	if b.unread.Len() == 0 {
		b.block()
		<-b.free
		return 0, os.ErrClosed
	}
	return b.script.Read(p)
}

func (b *blocking) Close() error {
	b.once.Do(func() { close(b.free) })
	return nil
}

// recorder is a launcher that sends given bytes and records the bytes that it receives.
type recorder struct {
	bytes.Reader
	wrote bytes.Buffer
}

func (r *recorder) Write(b []byte) (int, error) { return r.wrote.Write(b) }
func (*recorder) Close() error                  { return nil }
func (*recorder) SetDeadline(time.Time) error   { return nil }

// FuzzClient lets a launcher answer with arbitrary bytes.
func FuzzClient(f *testing.F) {
	for _, init := range [][]string{slurmInit, oldHydraInit, newHydraInit} {
		answers := init[1] + init[3] + init[5]
		f.Add([]byte(answers + "cmd=get_result rc=0 value=(vector,(0,2,1))\ncmd=get_result value=00000001ff\ncmd=barrier_out\n"))
		f.Add([]byte(answers + "cmd=get_result rc=-1\ncmd=get_result value=00000003ff\ncmd=get_result value=ffff\n"))
	}
	f.Fuzz(func(t *testing.T, answers []byte) {
		r := &recorder{}
		r.Reset(answers)
		c, err := newClient(&endpoint{conn: r, rank: 1, size: 3})
		if err == nil {
			if nodes, err := c.Mapping(); err == nil && len(nodes) != 3 {
				t.Errorf("mapping of %d ranks", len(nodes))
			}
			if blob, err := c.GetBlob("b"); len(blob) > len(answers) {
				t.Errorf("blob of %d bytes, %v", len(blob), err)
			}
			_ = c.Barrier(t.Context()) // may fail in any way
			_ = c.Finalize()
		}
		for line := range bytes.Lines(r.wrote.Bytes()) {
			if m, n, err := decode(line); n != len(line) || err != nil || len(line) > maxCommand || m.cmd == "init" && n > maxInit {
				t.Errorf("client wrote %q: %v", line, err)
			}
		}
	})
}
