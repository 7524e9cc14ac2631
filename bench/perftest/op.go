package perftest

import (
	"fmt"
	"strings"
)

// Op is one measurement.
type Op struct {
	Name  string // perftest's, without ib_
	About string // what is measured, in one line
	Sizes []int  // bytes of a message that are worth measuring

	verb  verb
	rate  bool // MB/s; otherwise microseconds
	turns int  // the figure is a turn divided by this: a ping-pong has two messages; 0 for a rate
	loop  func(*side) error
	quiet bool // the server only waits until the client is done
}

type verb uint8

const (
	send verb = iota
	write
	read
	fetchAdd
)

// AtomicBytes is the size of what atomic operations work on, the only one that they have.
const AtomicBytes = 8

var (
	short = []int{8}
	long  = []int{64 << 10, 1 << 20}
)

var ops = [...]Op{
	{Name: "send_lat", About: "half the round trip of a SEND", Sizes: short, verb: send, turns: 2, loop: (*side).sendTurns},
	{Name: "write_lat", About: "half the round trip of a WRITE", Sizes: short, verb: write, turns: 2, loop: (*side).writeTurns},
	{Name: "read_lat", About: "a READ", Sizes: short, verb: read, turns: 1, loop: (*side).oneByOne, quiet: true},
	{Name: "atomic_lat", About: "a FETCH AND ADD", Sizes: short, verb: fetchAdd, turns: 1, loop: (*side).oneByOne, quiet: true},
	{Name: "send_bw", About: "bandwidth of SENDs", Sizes: long, verb: send, rate: true, loop: (*side).stream},
	{Name: "write_bw", About: "bandwidth of WRITEs", Sizes: long, verb: write, rate: true, loop: (*side).stream, quiet: true},
	{Name: "read_bw", About: "bandwidth of READs", Sizes: long, verb: read, rate: true, loop: (*side).stream, quiet: true},
	{Name: "atomic_bw", About: "bandwidth of FETCH AND ADD", Sizes: short, verb: fetchAdd, rate: true, loop: (*side).stream,
		quiet: true},
}

// Ops returns all measurements.
func Ops() []Op { return ops[:] }

// Lookup finds a measurement by name.
func Lookup(name string) (Op, error) {
	var names []string
	for _, op := range ops {
		if op.Name == name {
			return op, nil
		}
		names = append(names, op.Name)
	}
	return Op{}, fmt.Errorf("there is no measurement %q, only %s", name, strings.Join(names, ", "))
}

// Program is the program of perftest that does the same.
func (op Op) Program() string { return "ib_" + op.Name }

// Rate tells that figures are MB/s, and more is better. Otherwise they are microseconds.
func (op Op) Rate() bool { return op.rate }

// Messages is how many messages a turn has of which a latency is the time of one.
func (op Op) Messages() int { return op.turns }

// Takes tells whether messages of that many bytes can be measured.
func (op Op) Takes(size int) bool {
	return size > 0 && size <= 1<<31 && (op.verb != fetchAdd || size == AtomicBytes)
}
