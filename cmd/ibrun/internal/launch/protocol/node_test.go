package protocol

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/allocation"
)

// startMessage returns a valid start message of two nodes.
func startMessage() *NodeStart {
	return &NodeStart{Protocol: NodeProtocol, Version: "v1", Secret: bytes.Repeat([]byte{7}, 32), Node: 1,
		Assignment: &allocation.Assignment{Hosts: []allocation.Host{{Name: "a"}, {Name: "b", User: "me", Slots: 2}}, Here: true,
			Ranks: []int{3}, Blocks: []allocation.Block{{Node: 0, Ranks: 1}, {Node: 1, Ranks: 2}}},
		Coordinator: "a", Args: []string{"-n", "3", "./p", "x\ny"}, Env: []string{"A=b\nc"}, Dir: "/tmp", JoinTimeout: time.Minute}
}

func encode(t testing.TB, s *NodeStart) []byte {
	t.Helper()
	line, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func TestReadNodeStart(t *testing.T) {
	want := startMessage()
	want.Env = append(want.Env, "LONG="+strings.Repeat("x", 1<<20))
	line := encode(t, want)
	got, err := ReadNodeStart(bytes.NewReader(line))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := ReadNodeStart(io.MultiReader(bytes.NewReader(append(line[:len(line):len(line)], "more"...)))); !errors.Is(err,
		errNodeStart) {
		t.Errorf("with further bytes: %v", err)
	}
	if _, err := ReadNodeStart(strings.NewReader("")); !errors.Is(err, io.EOF) {
		t.Errorf("nothing: %v", err)
	}
	if _, err := ReadNodeStart(endless{}); !errors.Is(err, errNodeStart) {
		t.Errorf("an endless line: %v", err)
	}
	if _, err := (&NodeStart{Env: []string{strings.Repeat("x", maxNodeStart)}}).Encode(); err == nil {
		t.Error("a message that is too long was encoded")
	}
}

// endless is a line without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, bytes.Repeat([]byte("x"), len(b))), nil }

// A start message that contradicts itself is refused.
func TestInvalidNodeStart(t *testing.T) {
	for name, change := range map[string]func(*NodeStart){
		"protocol":   func(s *NodeStart) { s.Protocol++ },
		"secret":     func(s *NodeStart) { s.Secret = s.Secret[1:] },
		"node":       func(s *NodeStart) { s.Node = 2 },
		"no nodes":   func(s *NodeStart) { s.Assignment = nil },
		"assignment": func(s *NodeStart) { s.Assignment.Ranks = []int{4} },
		"no program": func(s *NodeStart) { s.Args = nil },
	} {
		s := startMessage()
		change(s)
		if _, err := ReadNodeStart(bytes.NewReader(encode(t, s))); !errors.Is(err, errNodeStart) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFindNode(t *testing.T) {
	s := startMessage()
	if node, err := s.FindNode("other"); node != 1 || err != nil {
		t.Errorf("node %d, %v", node, err)
	}
	s.Node = 0
	if node, err := s.FindNode("b"); node != 1 || err != nil {
		t.Errorf("b is node %d, %v", node, err)
	}
	if node, err := s.FindNode("c"); err == nil {
		t.Errorf("c is node %d", node)
	}
}

func TestNodeStartPrefixes(t *testing.T) {
	line := encode(t, startMessage())
	if _, err := decodeNodeStart(line); err != nil {
		t.Fatal(err)
	}
	for n := range line {
		if s, err := decodeNodeStart(line[:n]); err == nil {
			t.Fatalf("%q was decoded as %+v", line[:n], s)
		}
	}
}

func FuzzNodeStart(f *testing.F) {
	f.Add(encode(f, startMessage()))
	f.Fuzz(func(t *testing.T, line []byte) {
		s, err := decodeNodeStart(line)
		if err != nil {
			return
		}
		node, err := s.FindNode("b")
		if err == nil && (node < 1 || s.Assignment.Host(node) == nil) {
			t.Errorf("%q: node %d", line, node)
		}
		again, err := decodeNodeStart(encode(t, s))
		if err != nil || !bytes.Equal(encode(t, again), encode(t, s)) {
			t.Errorf("%q was decoded as %+v, and again as %+v, %v", line, s, again, err)
		}
	})
}

var greeting = Greeting{Protocol: 12, Version: "v1.2.3+x", Host: "n1.cluster"}

func TestGreetingPrefixes(t *testing.T) {
	line := greeting.String()
	for _, end := range []string{"", "\r"} {
		if g, ok := DecodeGreeting(line + end); !ok || g != greeting {
			t.Errorf("%q is %+v, %v", line+end, g, ok)
		}
	}
	for n := range strings.LastIndexByte(line, ' ') + 1 { // the newline that follows ends the name of the host
		if g, ok := DecodeGreeting(line[:n]); ok {
			t.Errorf("%q was decoded as %+v", line[:n], g)
		}
	}
	for _, bad := range []string{"", "Welcome to n1", "ibrun-node x v1 n1", "ibrun-node 0 v1 n1", "ibrun-node -1 v1 n1", " " + line,
		line + " x", "ibrun-node 1  n1", line + "\r\r", "ibrun-node 1 v1 \r\r"} {
		if g, ok := DecodeGreeting(bad); ok {
			t.Errorf("%q was decoded as %+v", bad, g)
		}
	}
}

func FuzzGreeting(f *testing.F) {
	f.Add(greeting.String())
	f.Fuzz(func(t *testing.T, line string) {
		g, ok := DecodeGreeting(line)
		if again, ok2 := DecodeGreeting(g.String()); ok && (!ok2 || again != g) {
			t.Errorf("%q is %+v, and again %+v", line, g, again)
		}
	})
}
