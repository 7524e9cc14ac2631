package mux

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

// answer receives the next command of a session and calls program with it.
func answer(t *testing.T, s *Session, program func(c *Command, p *Program)) {
	go func() {
		st, err := s.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		c, err := Receive(st)
		if err != nil || c == nil {
			t.Errorf("received %v, %v", c, err)
			return
		}
		program(c, Serve(st))
	}()
}

func TestRun(t *testing.T) {
	host, guest := sessions(t)
	want := Command{Node: 1, Args: []string{"a", ""}, Dir: "/d", Env: []string{"A=b", "BIG=" + strings.Repeat("x", 1<<20)}}
	stdin := noise(100_000)
	answer(t, guest, func(c *Command, p *Program) {
		if !reflect.DeepEqual(*c, want) {
			t.Errorf("received %v", c)
		}
		var in bytes.Buffer
		if err := p.Stdin(&in); err != nil || !bytes.Equal(in.Bytes(), stdin) {
			t.Errorf("standard input differs, %v", err)
		}
		p.Stdout().Write(in.Bytes())
		p.Stderr().Write([]byte("an error\x00"))
		p.Exit(7, nil)
	})
	st, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code, err := Run(st, want, bytes.NewReader(stdin), &out, &errs)
	if code != 7 || err != nil || !bytes.Equal(out.Bytes(), stdin) || errs.String() != "an error\x00" {
		t.Errorf("code %d, %v; %d bytes of output; %q", code, err, out.Len(), errs.String())
	}
}

func TestRunReportsStartError(t *testing.T) {
	host, guest := sessions(t)
	answer(t, guest, func(_ *Command, p *Program) { p.Exit(127, errors.New("nothing of that name")) })
	st, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	code, err := Run(st, Command{Args: []string{"x"}}, nil, io.Discard, io.Discard)
	if code != 127 || err == nil || err.Error() != "nothing of that name" {
		t.Errorf("code %d, %v", code, err)
	}
}

func TestRunReportsLostGuest(t *testing.T) {
	host, guest := sessions(t)
	answer(t, guest, func(_ *Command, p *Program) {
		p.Stdout().Write([]byte("begun"))
		guest.Close()
	})
	st, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	if code, err := Run(st, Command{Args: []string{"x"}}, nil, io.Discard, io.Discard); code != -1 || err == nil {
		t.Errorf("code %d, %v from a lost guest", code, err)
	}
}

func TestContextEndsWhenStreamCloses(t *testing.T) {
	host, guest := sessions(t)
	ended := make(chan struct{})
	answer(t, guest, func(_ *Command, p *Program) {
		ctx, cancel := p.Context()
		defer cancel()
		<-ctx.Done()
		close(ended)
	})
	st, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := SendCommand(st, Command{Args: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	st.Close()
	<-ended
}

func TestJoin(t *testing.T) {
	hostA, guestA := sessions(t)
	hostB, guestB := sessions(t)
	from, near := streams(t, guestA, hostA) // a program in guest A
	far, to := streams(t, hostB, guestB)    // connects to guest B
	joined := make(chan struct{})
	go func() {
		Join(near, far)
		close(joined)
	}()
	sent := noise(2 * window)
	go from.Write(sent)
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(to, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("what arrived differs, %v", err)
	}
	to.Write([]byte("thanks"))
	to.Close()
	if got, err := io.ReadAll(from); string(got) != "thanks" || err != nil {
		t.Errorf("%q, %v came back", got, err)
	}
	<-joined
}

func TestReceiveRejects(t *testing.T) {
	for name, f := range map[string]frame{
		"a command without a program": {kind: kindStart, data: []byte(`{"Args":[]}`)},
		"no JSON":                     {kind: kindStart, data: []byte(`{`)},
		"output":                      {kind: kindStdout},
	} {
		if c, err := Receive(bytes.NewReader(f.append(nil))); !errors.Is(err, errFrame) {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	var ready bytes.Buffer
	if err := SendReady(&ready); err != nil {
		t.Fatal(err)
	}
	if c, err := Receive(&ready); c != nil || err != nil {
		t.Errorf("a ready frame is %v, %v", c, err)
	}
}
