package mpitest

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// sit takes a seat for each of two programs, in worlds of these names.
func sit(t *testing.T, table *Table, worlds ...string) (seats []*seat) {
	t.Helper()
	for k, world := range worlds {
		name, value, _ := strings.Cut(table.Environ(k), "=")
		t.Setenv(name, value)
		s, err := takeSeat(world)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.conn.Close() })
		seats = append(seats, s)
	}
	return seats
}

func lay(t *testing.T) *Table {
	t.Helper()
	table, err := NewTable("tcp", "127.0.0.1:0", 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	})
	return table
}

// together does something as each program, at the same time.
func together(seats []*seat, f func(s *seat) error) (errs [2]error) {
	done := make(chan struct{})
	go func() {
		errs[1] = f(seats[1])
		close(done)
	}()
	errs[0] = f(seats[0])
	<-done
	return errs
}

// TestTable: ranks are dealt out, everybody hears everybody, and a failure at the end is one of all. A world comes after another.
func TestTable(t *testing.T) {
	table := lay(t)
	for range 3 {
		seats := sit(t, table, "w", "w")
		if seats[0].has(3) || !seats[1].has(3) || !seats[0].has(4) || seats[0].key() != seats[1].key() {
			t.Error("ranks or keys are dealt out wrongly")
		}
		for k, err := range together(seats, func(s *seat) error {
			words, err := s.say(word{Cards: map[int][]byte{s.program: {byte(s.program), 7}}})
			if err == nil && (string(words[0].Cards[0]) != "\x00\x07" || string(words[1].Cards[1]) != "\x01\x07" || words[0].Token != "") {
				t.Errorf("program %d heard %+v", s.program, words)
			}
			return err
		}) {
			if err != nil {
				t.Errorf("program %d: %v", k, err)
			}
		}
		errs := together(seats, func(s *seat) error {
			if s.program == 1 {
				return s.leave([]error{errors.New("a rank has failed")})
			}
			return s.leave(nil)
		})
		if errs[1] != nil || !errors.Is(errs[0], errTable) || !strings.Contains(errs[0].Error(), "program 1: a rank has failed") {
			t.Errorf("the programs leave with %v", errs)
		}
	}
}

// TestTableApart: programs that run different worlds hear so.
func TestTableApart(t *testing.T) {
	for k, err := range together(sit(t, lay(t), "TestA with 2 ranks", "TestB with 2 ranks"), func(s *seat) error {
		_, err := s.say(word{})
		return err
	}) {
		if !errors.Is(err, errTable) || !strings.Contains(err.Error(), "TestA") || !strings.Contains(err.Error(), "TestB") {
			t.Errorf("program %d: %v", k, err)
		}
	}
}

// TestTableLeft: nobody waits for a program that ended in the middle of a world, nor at a table that was closed.
func TestTableLeft(t *testing.T) {
	table := lay(t)
	seats := sit(t, table, "w", "w")
	if errs := together(seats, func(s *seat) error { _, err := s.say(word{}); return err }); errs != [2]error{} {
		t.Fatal(errs)
	}
	seats[1].conn.Close()
	if _, err := seats[0].say(word{}); !errors.Is(err, errTable) {
		t.Errorf("the other has gone: %v", err)
	}
	alone := sit(t, table, "w")[0]
	heard := make(chan error)
	go func() {
		_, err := alone.say(word{})
		heard <- err
	}()
	if err := table.Close(); err != nil {
		t.Error(err)
	}
	if err := <-heard; !errors.Is(err, errTable) {
		t.Errorf("the table was closed: %v", err)
	}
}

// TestTableStranger: who does not know the token, or talks nonsense, is sent away and changes nothing.
func TestTableStranger(t *testing.T) {
	table := lay(t)
	seats := sit(t, table, "w", "w")
	for _, said := range []string{`{"token":"x","program":0,"world":"w"}`, "GET / HTTP/1.1\r\n\r\n", "{\"token\":\"" + table.token +
		"\",\"program\":2}", ""} {
		conn, err := net.Dial("tcp", table.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, said); err != nil {
			t.Fatal(err)
		}
		if said == "" { // it says nothing, and waits
			defer conn.Close()
			continue
		}
		if b, err := io.ReadAll(conn); len(b) != 0 {
			t.Errorf("%q was answered by %q, %v", said, b, err)
		}
		conn.Close()
	}
	if errs := together(seats, func(s *seat) error { _, err := s.say(word{}); return err }); errs != [2]error{} {
		t.Errorf("after strangers: %v", errs)
	}
}
