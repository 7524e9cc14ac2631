package mpitest

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
)

// tableVariable tells a program where its table is, the token, its number and how many there are.
const tableVariable = "IBRUN_MPITEST_TABLE"

// errTable is why a world fails that cannot be run together with the other programs.
var errTable = errors.New("the table of test programs")

// seat is a program's place at the table, for one world.
type seat struct {
	conn              net.Conn
	in                *json.Decoder
	token, world      string
	program, programs int
}

// takeSeat goes to the table. It returns nil where there is none.
func takeSeat(world string) (*seat, error) {
	text := os.Getenv(tableVariable)
	if text == "" {
		return nil, nil
	}
	s := &seat{world: world}
	var network, addr string
	if _, err := fmt.Sscanf(text, "%s %s %s %d %d", &network, &addr, &s.token, &s.program, &s.programs); err != nil {
		return nil, fmt.Errorf("%w: %s=%q: %w", errTable, tableVariable, text, err)
	}
	var err error
	if s.conn, err = net.Dial(network, addr); err != nil {
		return nil, fmt.Errorf("%w: %w", errTable, err)
	}
	s.in = json.NewDecoder(s.conn)
	return s, nil
}

// key is a secret that all programs share.
func (s *seat) key() [32]byte { return sha256.Sum256([]byte(s.token)) }

// has tells whether a rank is one of this program.
func (s *seat) has(rank int) bool { return s == nil || rank%s.programs == s.program }

func (s *seat) close() error {
	if s == nil {
		return nil
	}
	return s.conn.Close()
}

// say tells the others something and returns what each has said.
func (s *seat) say(w word) ([]word, error) {
	w.Token, w.Program, w.World = s.token, s.program, s.world
	if err := json.NewEncoder(s.conn).Encode(w); err != nil {
		return nil, fmt.Errorf("%w: %w", errTable, err)
	}
	var words []word
	if err := s.in.Decode(&words); err != nil {
		return nil, fmt.Errorf("%w: another program has ended: %w", errTable, err)
	}
	for _, w := range words {
		if w.World != s.world {
			return nil, fmt.Errorf("%w: program %d runs %s, and program %d %s", errTable, s.program, s.world, w.Program, w.World)
		}
	}
	return words, nil
}

// leave tells the others how the world has ended here, and returns how it has at one of the others.
func (s *seat) leave(failures []error) error {
	last := word{Last: true}
	if len(failures) > 0 {
		last.Failure = failures[0].Error()
	}
	words, err := s.say(last)
	err = errors.Join(err, s.close())
	for _, w := range words {
		if w.Program != s.program && w.Failure != "" {
			return fmt.Errorf("%w: program %d: %s", errTable, w.Program, w.Failure)
		}
	}
	return err
}
