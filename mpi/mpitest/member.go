package mpitest

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
)

// rendezvousVariable is the environment variable with the address of the rendezvous, the token, the program's number
// and the number of programs.
const rendezvousVariable = "IBRUN_MPITEST_TABLE"

// errRendezvous is the error of a world that cannot run together with the other programs.
var errRendezvous = errors.New("rendezvous of test programs")

// member is the connection of a program to the rendezvous, for one world.
type member struct {
	conn              net.Conn
	in                *json.Decoder
	token, world      string
	program, programs int
}

// joinRendezvous connects to the rendezvous. It returns nil if the environment names none.
func joinRendezvous(world string) (*member, error) {
	text := os.Getenv(rendezvousVariable)
	if text == "" {
		return nil, nil
	}
	s := &member{world: world}
	var network, addr string
	if _, err := fmt.Sscanf(text, "%s %s %s %d %d", &network, &addr, &s.token, &s.program, &s.programs); err != nil {
		return nil, fmt.Errorf("%w: %s=%q: %w", errRendezvous, rendezvousVariable, text, err)
	}
	var err error
	if s.conn, err = net.Dial(network, addr); err != nil {
		return nil, fmt.Errorf("%w: %w", errRendezvous, err)
	}
	s.in = json.NewDecoder(s.conn)
	return s, nil
}

// key returns a secret that all programs share.
func (s *member) key() [32]byte { return sha256.Sum256([]byte(s.token)) }

// hosts reports whether a rank runs in this program.
func (s *member) hosts(rank int) bool { return s == nil || rank%s.programs == s.program }

func (s *member) close() error {
	if s == nil {
		return nil
	}
	return s.conn.Close()
}

// exchange sends a message to the other programs and returns the messages of all.
func (s *member) exchange(w message) ([]message, error) {
	w.Token, w.Program, w.World = s.token, s.program, s.world
	if err := json.NewEncoder(s.conn).Encode(w); err != nil {
		return nil, fmt.Errorf("%w: %w", errRendezvous, err)
	}
	var words []message
	if err := s.in.Decode(&words); err != nil {
		return nil, fmt.Errorf("%w: another program has ended: %w", errRendezvous, err)
	}
	for _, w := range words {
		if w.World != s.world {
			return nil, fmt.Errorf("%w: program %d runs %s, and program %d %s", errRendezvous, s.program, s.world, w.Program, w.World)
		}
	}
	return words, nil
}

// leave sends the result of the world in this program to the others. It returns an error if the world failed in one
// of them.
func (s *member) leave(failures []error) error {
	last := message{Last: true}
	if len(failures) > 0 {
		last.Failure = failures[0].Error()
	}
	words, err := s.exchange(last)
	err = errors.Join(err, s.close())
	for _, w := range words {
		if w.Program != s.program && w.Failure != "" {
			return fmt.Errorf("%w: program %d: %s", errRendezvous, w.Program, w.Failure)
		}
	}
	return err
}
