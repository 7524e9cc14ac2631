package mpitest

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// joinMembers connects two programs to the rendezvous, for worlds with these names.
func joinMembers(t *testing.T, table *Rendezvous, worlds ...string) (members []*member) {
	t.Helper()
	for k, world := range worlds {
		name, value, _ := strings.Cut(table.Environ(k), "=")
		t.Setenv(name, value)
		s, err := joinRendezvous(world)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.conn.Close() })
		members = append(members, s)
	}
	return members
}

func newTestRendezvous(t *testing.T) *Rendezvous {
	t.Helper()
	table, err := NewRendezvous("tcp", "127.0.0.1:0", 2)
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

// inParallel runs f for each program at the same time.
func inParallel(members []*member, f func(s *member) error) (errs [2]error) {
	done := make(chan struct{})
	go func() {
		errs[1] = f(members[1])
		close(done)
	}()
	errs[0] = f(members[0])
	<-done
	return errs
}

// TestRendezvous: ranks are assigned round-robin, all programs receive all messages, and a failure in one is reported
// to all. Several worlds run one after the other.
func TestRendezvous(t *testing.T) {
	table := newTestRendezvous(t)
	for range 3 {
		members := joinMembers(t, table, "w", "w")
		if members[0].hosts(3) || !members[1].hosts(3) || !members[0].hosts(4) || members[0].key() != members[1].key() {
			t.Error("wrong ranks or keys")
		}
		for k, err := range inParallel(members, func(s *member) error {
			words, err := s.exchange(message{Addrs: map[int][]byte{s.program: {byte(s.program), 7}}})
			if err == nil && (string(words[0].Addrs[0]) != "\x00\x07" || string(words[1].Addrs[1]) != "\x01\x07" || words[0].Token != "") {
				t.Errorf("program %d received %+v", s.program, words)
			}
			return err
		}) {
			if err != nil {
				t.Errorf("program %d: %v", k, err)
			}
		}
		errs := inParallel(members, func(s *member) error {
			if s.program == 1 {
				return s.leave([]error{errors.New("a rank has failed")})
			}
			return s.leave(nil)
		})
		if errs[1] != nil || !errors.Is(errs[0], errRendezvous) || !strings.Contains(errs[0].Error(), "program 1: a rank has failed") {
			t.Errorf("the programs leave with %v", errs)
		}
	}
}

// TestRendezvousDifferentWorlds: programs that run different worlds get an error.
func TestRendezvousDifferentWorlds(t *testing.T) {
	members := joinMembers(t, newTestRendezvous(t), "TestA with 2 ranks", "TestB with 2 ranks")
	for k, err := range inParallel(members, func(s *member) error {
		_, err := s.exchange(message{})
		return err
	}) {
		if !errors.Is(err, errRendezvous) || !strings.Contains(err.Error(), "TestA") || !strings.Contains(err.Error(), "TestB") {
			t.Errorf("program %d: %v", k, err)
		}
	}
}

// TestRendezvousDisconnected: no program waits for one that ended during a world, or after the rendezvous was closed.
func TestRendezvousDisconnected(t *testing.T) {
	table := newTestRendezvous(t)
	members := joinMembers(t, table, "w", "w")
	if errs := inParallel(members, func(s *member) error { _, err := s.exchange(message{}); return err }); errs != [2]error{} {
		t.Fatal(errs)
	}
	members[1].conn.Close()
	if _, err := members[0].exchange(message{}); !errors.Is(err, errRendezvous) {
		t.Errorf("the other has gone: %v", err)
	}
	alone := joinMembers(t, table, "w")[0]
	received := make(chan error)
	go func() {
		_, err := alone.exchange(message{})
		received <- err
	}()
	if err := table.Close(); err != nil {
		t.Error(err)
	}
	if err := <-received; !errors.Is(err, errRendezvous) {
		t.Errorf("the table was closed: %v", err)
	}
}

// TestRendezvousUnauthenticated: a client without the token or with invalid messages is disconnected and changes
// nothing.
func TestRendezvousUnauthenticated(t *testing.T) {
	table := newTestRendezvous(t)
	members := joinMembers(t, table, "w", "w")
	for _, sent := range []string{`{"token":"x","program":0,"world":"w"}`, "GET / HTTP/1.1\r\n\r\n", "{\"token\":\"" + table.token +
		"\",\"program\":2}", ""} {
		conn, err := net.Dial("tcp", table.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		if sent == "" { // it sends nothing, and waits
			defer conn.Close()
			continue
		}
		if b, err := io.ReadAll(conn); len(b) != 0 {
			t.Errorf("%q was answered by %q, %v", sent, b, err)
		}
		conn.Close()
	}
	if errs := inParallel(members, func(s *member) error { _, err := s.exchange(message{}); return err }); errs != [2]error{} {
		t.Errorf("after unauthenticated connections: %v", errs)
	}
}
